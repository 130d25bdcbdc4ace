//! Signing secrets and signatures of Standard Webhooks (<https://www.standardwebhooks.com>).
//!
//! A signature is `v1,` and the base 64 of HMAC-SHA256 over `id.timestamp.body`. While a secret is
//! being replaced, the old and the new one both sign, and the header has both signatures.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde::{Deserialize, Serialize};

const PREFIX: &str = "whsec_";
/// Bytes of a secret that is made here.
const SECRET_BYTES: usize = 32;

/// A signing secret. Its text appears in the one answer that shows it and in the store.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Secret {
    /// `whsec_` and the key in base 64.
    text: String,
    pub(crate) created_ms: u64,
    /// When it stops signing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_ms: Option<u64>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("created_ms", &self.created_ms).finish_non_exhaustive()
    }
}

impl Secret {
    /// Makes a secret of random bytes.
    pub(crate) fn random(now_ms: u64) -> Result<Self, String> {
        let mut key = [0; SECRET_BYTES];
        getrandom::fill(&mut key).map_err(|error| format!("no random bytes: {error}"))?;
        let text = format!("{PREFIX}{}", STANDARD.encode(key));
        Ok(Self { text, created_ms: now_ms, expires_ms: None })
    }

    /// The secret itself, to be shown once.
    pub(crate) fn reveal(&self) -> &str {
        &self.text
    }

    pub(crate) fn signs_at(&self, now_ms: u64) -> bool {
        self.expires_ms.is_none_or(|expires| now_ms < expires)
    }

    fn key(&self) -> Option<hmac::Key> {
        let bytes = STANDARD.decode(self.text.strip_prefix(PREFIX)?).ok()?;
        Some(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
    }
}

/// The keys of all secrets that sign, decoded once.
#[derive(Clone)]
pub(crate) struct Signer {
    keys: Vec<(hmac::Key, Option<u64>)>,
}

impl Signer {
    pub(crate) fn new(secrets: &[Secret]) -> Self {
        let keys = secrets.iter().filter_map(|secret| Some((secret.key()?, secret.expires_ms)));
        Self { keys: keys.collect() }
    }

    /// Returns the value of `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, now_ms: u64, body: &[u8]) -> String {
        let timestamp = now_ms / 1_000;
        let head = format!("{id}.{timestamp}.");
        let mut header = String::new();
        for (key, expires) in &self.keys {
            if expires.is_some_and(|expires| now_ms >= expires) {
                continue;
            }
            let mut context = hmac::Context::with_key(key);
            context.update(head.as_bytes());
            context.update(body);
            if !header.is_empty() {
                header.push(' ');
            }
            header.push_str("v1,");
            STANDARD.encode_string(context.sign(), &mut header);
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(key: &[u8], expires_ms: Option<u64>) -> Secret {
        let text = format!("{PREFIX}{}", STANDARD.encode(key));
        Secret { text, created_ms: 0, expires_ms }
    }

    /// The example of the Standard Webhooks specification.
    #[test]
    fn the_example_of_the_specification_is_signed_alike() {
        let text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned();
        let secret = Secret { text, created_ms: 0, expires_ms: None };
        let signature = Signer::new(&[secret]).sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330_000,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn both_secrets_sign_until_the_old_one_expires() {
        let (old, new) = (secret(&[1; 24], Some(5_000)), secret(&[2; 64], None));
        let signer = Signer::new(&[new.clone(), old.clone()]);
        let both = signer.sign("id", 4_999, b"body");
        let parts: Vec<_> = both.split(' ').collect();
        assert_eq!(parts[0], Signer::new(&[new]).sign("id", 4_999, b"body"));
        assert_eq!(parts[1], Signer::new(&[old]).sign("id", 4_999, b"body"));
        assert_eq!(signer.sign("id", 5_000, b"body").split(' ').count(), 1);
    }

    #[test]
    fn a_secret_has_enough_random_bytes_and_is_not_printed() {
        let one = Secret::random(7).unwrap();
        let bytes = STANDARD.decode(one.reveal().strip_prefix(PREFIX).unwrap()).unwrap();
        assert!((24..=64).contains(&bytes.len()));
        assert_ne!(one, Secret::random(7).unwrap());
        assert!(!format!("{one:?}").contains(one.reveal()));
    }
}
