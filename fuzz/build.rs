//! Sets `cfg(fuzzing)` as cargo-fuzz does, so that `cargo clippy` sees the same code.

fn main() {
    println!("cargo::rustc-cfg=fuzzing");
}
