use std::collections::HashMap;
use std::time::SystemTime;
use tickwheel_client::verify_webhook;

/// Returns the status of the answer.
pub fn receive(secret: &str, headers: &HashMap<String, String>, body: &[u8]) -> u16 {
    let header = |name: &str| headers.get(name).map(String::as_str);
    match verify_webhook(secret, header, body, SystemTime::now()) {
        Ok(()) => 204,
        Err(_) => 401,
    }
}
