//! The quick form of the comparison does every workload, and shows a table and goals.

use std::process::Command;

#[test]
fn the_quick_form_does_everything() {
    let output = Command::new(env!("CARGO_BIN_EXE_tickwheel-bench"))
        .args(["pace", "--quick", "--keys", "2k"])
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in
        ["submit + dispatch, new key", "forget a key", "check, refused", "vs governor", "## Goals"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}
