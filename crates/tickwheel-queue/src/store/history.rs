//! The value of a history row: the last attempts of a job, the oldest first.

use bytes::Bytes;

use super::codec::{Decoder, Encode, Malformed};
use crate::model::history::{Attempt, AttemptOutcome, prefix};

const VERSION: u8 = 1;

pub(crate) fn encode_history(bytes: &mut Vec<u8>, attempts: &[Attempt]) {
    bytes.byte(VERSION);
    bytes.number(attempts.len() as u64);
    for attempt in attempts {
        bytes.number(u64::from(attempt.number));
        bytes.time(attempt.started);
        bytes.time(attempt.ended);
        bytes.option(attempt.worker.as_deref(), Encode::text);
        let outcome = AttemptOutcome::ALL.iter().position(|other| *other == attempt.outcome);
        bytes.byte(outcome.unwrap_or_default() as u8);
        for text in [&attempt.error, &attempt.detail] {
            let text = text.as_deref().map(|text| prefix(text, Attempt::MAX_TEXT_BYTES));
            bytes.option(text, Encode::text);
        }
    }
}

pub(crate) fn decode_history(bytes: Bytes) -> Result<Vec<Attempt>, Malformed> {
    let mut decoder = Decoder::new(bytes, VERSION)?;
    let attempts = decoder.list(|decoder| {
        Ok(Attempt {
            number: decoder.number_as()?,
            started: decoder.time()?,
            ended: decoder.time()?,
            worker: decoder.option(Decoder::text)?,
            outcome: decode_outcome(decoder.byte()?)?,
            error: decoder.option(Decoder::text)?,
            detail: decoder.option(Decoder::text)?,
        })
    })?;
    decoder.end()?;
    Ok(attempts)
}

fn decode_outcome(byte: u8) -> Result<AttemptOutcome, Malformed> {
    let outcome = AttemptOutcome::ALL.get(usize::from(byte));
    outcome.copied().ok_or_else(|| format!("outcome {byte} of an attempt"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::time::Time;

    #[test]
    fn attempts_come_back_with_texts_of_bounded_length() {
        let attempts: Vec<Attempt> = AttemptOutcome::ALL
            .into_iter()
            .map(|outcome| Attempt {
                number: u32::MAX,
                started: Time::from_millis(3),
                ended: Time::MAX,
                worker: Some("mail-7".into()),
                outcome,
                error: Some("é".repeat(Attempt::MAX_TEXT_BYTES / 2)),
                detail: None,
            })
            .collect();
        let mut bytes = Vec::new();
        encode_history(&mut bytes, &attempts);
        assert_eq!(decode_history(bytes.into()), Ok(attempts.clone()));

        let long = Attempt {
            error: Some(format!("x{}", "é".repeat(Attempt::MAX_TEXT_BYTES))),
            ..attempts[0].clone()
        };
        let mut bytes = Vec::new();
        encode_history(&mut bytes, &[long]);
        let kept = decode_history(bytes.into()).unwrap();
        assert_eq!(kept[0].error.as_ref().unwrap().len(), Attempt::MAX_TEXT_BYTES - 1);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(mut bytes: Vec<u8>, versioned: bool) {
            if versioned && !bytes.is_empty() {
                bytes[0] = VERSION;
            }
            let _ = decode_history(bytes.into());
        }
    }
}
