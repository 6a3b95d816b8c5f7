//! Turns the data files, which people write as TOML with comments, into JSON, which the program reads
//! elsewhere too: a second parser would be a hundredth of it. Packs them: they are 20 KiB of words.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const DATA: [&str; 2] = ["classes", "published"];

fn main() -> std::io::Result<()> {
    let into = std::env::var_os("OUT_DIR").expect("cargo says where");
    for name in DATA {
        let path = Path::new("src").join(name).with_extension("toml");
        println!("cargo::rerun-if-changed={}", path.display());
        let text = std::fs::read_to_string(&path)?;
        let value: serde_json::Value = toml::from_str(&text)
            .map_err(|error| std::io::Error::other(format!("{}: {error}", path.display())))?;
        let file = std::fs::File::create(Path::new(&into).join(name).with_extension("z"))?;
        let mut packed = ZlibEncoder::new(file, Compression::best());
        packed.write_all(value.to_string().as_bytes())?;
        packed.finish()?;
    }
    Ok(())
}
