//! The row of the local store that says how far a replica has applied its log.

use bytes::{Buf, Bytes};

use crate::log::StreamId;
use crate::record::{RecordError, Tip};

/// The version of the row.
const VERSION: u8 = 1;
/// In place of a version: the replica's seeding did not end.
const SEEDING: u8 = 255;

/// How far a replica has applied its log, and who owned the partition there.
///
/// ```
/// use tickwheel_cluster::{Applied, log::StreamId};
///
/// let applied = Applied::new(StreamId::new("orders, created at noon"));
/// assert_eq!(applied.owner(), None);
/// assert_eq!(applied.tip.epoch, 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The stream of the log; empty before the replica has seen it.
    pub stream: StreamId,
    /// The end of what was applied.
    pub tip: Tip,
    /// The node that took over last; empty before the first takeover.
    pub taken_by: String,
    /// Whether that node gave the partition up again.
    pub is_handed_off: bool,
    /// The node that it was handed to; empty if any node may take it.
    pub handed_to: String,
}

impl Applied {
    /// Returns the state before the first record of a stream.
    pub fn new(stream: StreamId) -> Self {
        Self {
            stream,
            tip: Tip::START,
            taken_by: String::new(),
            is_handed_off: false,
            handed_to: String::new(),
        }
    }

    /// Returns the node that may append rows, if any may.
    pub fn owner(&self) -> Option<&str> {
        (!self.is_handed_off && !self.taken_by.is_empty()).then_some(&*self.taken_by)
    }

    /// Notes a takeover.
    pub(crate) fn taken(&mut self, node: &str) {
        node.clone_into(&mut self.taken_by);
        self.is_handed_off = false;
        self.handed_to.clear();
    }

    /// Notes a hand-off.
    pub(crate) fn handed_off(&mut self, to: Option<&str>) {
        self.is_handed_off = true;
        to.unwrap_or_default().clone_into(&mut self.handed_to);
    }

    /// Returns the value of the row.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, u8::from(self.is_handed_off)];
        let tip = self.tip.to_bytes();
        for part in [&tip[..], self.stream.as_str().as_bytes(), self.taken_by.as_bytes()] {
            bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes.extend_from_slice(self.handed_to.as_bytes());
        bytes
    }

    /// Reads the value of the row; `None` for a replica whose seeding did not end.
    pub(crate) fn decode(mut bytes: Bytes) -> Result<Option<Self>, RecordError> {
        let malformed = || RecordError::Malformed("not a replica's position".into());
        match bytes.try_get_u8() {
            Ok(VERSION) => {}
            Ok(SEEDING) => return Ok(None),
            Ok(found) => return Err(RecordError::NewerVersion { found, known: VERSION }),
            Err(_) => return Err(malformed()),
        }
        let is_handed_off = bytes.try_get_u8().map_err(|_| malformed())? != 0;
        let mut part = || {
            let length = bytes.try_get_u32_le().ok().filter(|it| *it as usize <= bytes.len());
            length.map(|length| bytes.split_to(length as usize)).ok_or_else(malformed)
        };
        let (tip, stream, taken_by) = (part()?, part()?, part()?);
        let text = |bytes: Bytes| String::from_utf8(bytes.into()).map_err(|_| malformed());
        Ok(Some(Self {
            stream: StreamId::new(text(stream)?),
            tip: Tip::from_bytes(&tip)?,
            taken_by: text(taken_by)?,
            is_handed_off,
            handed_to: text(bytes)?,
        }))
    }

    /// The value of the row while a replica is seeded.
    pub(crate) const fn seeding() -> &'static [u8] {
        &[SEEDING]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_position_survives_its_encoding() {
        let mut applied = Applied::new(StreamId::new("a stream"));
        applied.taken("node-a");
        assert_eq!(Applied::decode(applied.encode().into()), Ok(Some(applied.clone())));
        applied.handed_off(Some("node-b"));
        assert_eq!(applied.owner(), None);
        assert_eq!(Applied::decode(applied.encode().into()), Ok(Some(applied)));
        assert_eq!(Applied::decode(Applied::seeding().into()), Ok(None));
        let newer = Applied::decode(vec![VERSION + 1].into());
        assert!(matches!(newer, Err(RecordError::NewerVersion { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..150)) {
            let _ = Applied::decode(bytes.into());
        }
    }
}
