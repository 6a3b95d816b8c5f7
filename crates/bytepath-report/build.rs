//! Packs the libraries that draw in pages: as published they would be 0.5 MiB of the program.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const FOLDER: &str = "src/page/vendor";
const LIBRARIES: [&str; 2] = ["d3-7.9.2.min.js", "plot-0.6.17.umd.min.js"];

fn main() -> std::io::Result<()> {
    let into = std::env::var_os("OUT_DIR").expect("cargo says where");
    for name in LIBRARIES {
        let path = Path::new(FOLDER).join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        let file = std::fs::File::create(Path::new(&into).join(format!("{name}.z")))?;
        let mut packed = ZlibEncoder::new(file, Compression::best());
        packed.write_all(&std::fs::read(path)?)?;
        packed.finish()?;
    }
    Ok(())
}
