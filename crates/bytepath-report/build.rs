//! Packs what pages are made of: as it is written it would be 0.5 MiB of the program.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const FOLDER: &str = "src/page";
/// The libraries that draw, the script that calls them, and how it all looks.
const PARTS: [(&str, &[&str]); 4] = [
    ("d3", &["vendor/d3-7.9.2.min.js"]),
    ("plot", &["vendor/plot-0.6.17.umd.min.js"]),
    (
        "script",
        &[
            "js/base.js",
            "js/charts.js",
            "js/costs.js",
            "js/tables.js",
            "js/flame.js",
            "js/start.js",
        ],
    ),
    ("style", &["page.css"]),
];

fn main() -> std::io::Result<()> {
    let into = std::env::var_os("OUT_DIR").expect("cargo says where");
    for (part, files) in PARTS {
        let file = std::fs::File::create(Path::new(&into).join(part).with_extension("z"))?;
        let mut packed = ZlibEncoder::new(file, Compression::best());
        for name in files {
            let path = Path::new(FOLDER).join(name);
            println!("cargo::rerun-if-changed={}", path.display());
            packed.write_all(&std::fs::read(path)?)?;
        }
        packed.finish()?;
    }
    Ok(())
}
