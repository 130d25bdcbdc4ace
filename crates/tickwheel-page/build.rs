//! Compresses the assets and lists them for `src/assets.rs`.
//!
//! Every file of `assets/` whose type is known becomes one entry. A hash of all entries is part of
//! their addresses, so that browsers may keep them for ever.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

fn content_type(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}

/// The 64-bit FNV-1a hash, continued from `hash`.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn main() {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("assets");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    println!("cargo::rerun-if-changed=assets");
    let mut files: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut list = String::new();
    for path in files {
        let Some(kind) = content_type(&path) else { continue };
        let name = path.file_name().unwrap().to_str().unwrap();
        let plain = fs::read(&path).unwrap();
        hash = fnv(fnv(hash, name.as_bytes()), &plain);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&plain).unwrap();
        let packed = out.join(format!("{name}.gz"));
        fs::write(&packed, encoder.finish().unwrap()).unwrap();
        let [plain, gzip] = [&path, &packed].map(|path| path.to_str().unwrap());
        writeln!(
            list,
            "Asset {{ name: {name:?}, content_type: {kind:?}, plain: include_bytes!({plain:?}), \
             gzip: include_bytes!({gzip:?}) }},"
        )
        .unwrap();
    }
    let text = format!(
        "/// The hash of all assets, which is a part of their addresses.\n\
         pub const VERSION: &str = \"{hash:016x}\";\n\
         /// All assets, by name.\n\
         pub const ASSETS: &[Asset] = &[\n{list}];\n"
    );
    fs::write(out.join("assets.rs"), text).unwrap();
}
