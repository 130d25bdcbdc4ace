//! JSON for people: a line for each part.
//!
//! The text is taken apart without reading values, so numbers keep every digit and the keys of
//! objects their order.

/// JSON that is nested deeper stays as it is: each line would begin with more blanks than text.
const MAX_DEPTH: usize = 100;

/// Returns JSON with a line for each part, or as it is if it is nested too deep.
pub(crate) fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut in_string = false;
    let mut is_escaped = false;
    let mut parts = json.chars().peekable();
    while let Some(part) = parts.next() {
        if in_string {
            text.push(part);
            in_string = is_escaped || part != '"';
            is_escaped = !is_escaped && part == '\\';
            continue;
        }
        match part {
            '"' => {
                in_string = true;
                text.push(part);
            }
            '{' | '[' => {
                text.push(part);
                while parts.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = parts.next_if(|next| matches!(next, '}' | ']')) {
                    text.push(end);
                    continue;
                }
                depth += 1;
                if depth > MAX_DEPTH {
                    return json.to_owned();
                }
                new_line(&mut text, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(part);
            }
            ',' => {
                text.push(part);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            part if part.is_ascii_whitespace() => {}
            part => text.push(part),
        }
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_keys_their_order() {
        let json = r#"{"z":12345678901234567890,"a":[1.10,-0,1E5],"e":{},"l":[ ],"t":"a\"{,:\\"}"#;
        let expected = r#"{
  "z": 12345678901234567890,
  "a": [
    1.10,
    -0,
    1E5
  ],
  "e": {},
  "l": [],
  "t": "a\"{,:\\"
}"#;
        assert_eq!(indented(json), expected);
        assert_eq!(indented(expected), expected);
        assert_eq!(indented("17"), "17");
    }

    #[test]
    fn what_is_nested_too_deep_stays_as_it_is() {
        let deep = "[".repeat(100_000) + "1" + &"]".repeat(100_000);
        assert_eq!(indented(&deep), deep);
    }
}
