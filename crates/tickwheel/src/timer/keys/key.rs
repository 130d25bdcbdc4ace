//! The keys that callers give to tasks.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use std::borrow::Cow;
use std::boxed::Box;
use std::string::String;
use std::sync::Arc;

/// A key of a task, chosen by the caller: a string or a number. Not to be confused with
/// [`wheel::Key`](crate::wheel::Key), which a wheel returns to identify a timer.
///
/// Functions that take a key accept anything that converts into one. Scheduling a key again replaces
/// its task. Numbers, and strings of up to 22 bytes, are stored without an allocation.
///
/// ```
/// use tickwheel::Key;
///
/// assert_eq!(Key::from("order-42"), Key::from(String::from("order-42")));
/// assert_eq!(Key::from(42_u32), Key::from(42_u64));
/// assert_ne!(Key::from("42"), Key::from(42));
/// assert_eq!(Key::from("order-42").to_string(), "order-42");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Repr);

/// The length of the longest string that is stored inline.
const MAX_INLINE_BYTES: usize = 22;

/// The representation of a key. A string that fits is always `Short`, so that equal keys have equal
/// representations.
#[derive(Clone, PartialEq, Eq)]
enum Repr {
    /// The halves of an `i128`. An `i128` itself is aligned to 16 bytes and would make keys larger.
    Number {
        high: i64,
        low: u64,
    },
    /// The bytes after the text are zero.
    Short {
        len: u8,
        bytes: [u8; MAX_INLINE_BYTES],
    },
    Long(Arc<str>),
}

/// A borrowed view of a key, for ordering and formatting. Numbers sort before strings.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum View<'a> {
    Number(i128),
    Text(&'a str),
}

impl Key {
    fn number(number: i128) -> Self {
        Self(Repr::Number { high: (number >> 64) as i64, low: number.cast_unsigned() as u64 })
    }

    fn text<T: AsRef<str> + Into<Arc<str>>>(text: T) -> Self {
        let short = text.as_ref().as_bytes();
        if short.len() > MAX_INLINE_BYTES {
            return Self(Repr::Long(text.into()));
        }
        let mut bytes = [0; MAX_INLINE_BYTES];
        bytes[..short.len()].copy_from_slice(short);
        Self(Repr::Short { len: short.len() as u8, bytes })
    }

    fn view(&self) -> View<'_> {
        match &self.0 {
            Repr::Number { high, low } => View::Number(i128::from(*high) << 64 | i128::from(*low)),
            Repr::Short { len, bytes } => {
                let text = core::str::from_utf8(&bytes[..usize::from(*len)]);
                View::Text(text.expect("the bytes were copied from a whole `str`"))
            }
            Repr::Long(text) => View::Text(text),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.view().cmp(&other.view())
    }
}

impl Hash for Key {
    /// Hashes the upper half of a number only if it is not the sign extension of the lower half.
    #[inline]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match &self.0 {
            Repr::Number { high, low } => {
                low.hash(hasher);
                if *high != low.cast_signed() >> 63 {
                    high.hash(hasher);
                }
            }
            Repr::Short { len, bytes } => bytes[..usize::from(*len)].hash(hasher),
            Repr::Long(text) => text.as_bytes().hash(hasher),
        }
    }
}

macro_rules! from_numbers {
    ($($number:ty)*) => {$(
        impl From<$number> for Key {
            #[inline]
            fn from(number: $number) -> Self {
                Self::number(number as i128)
            }
        }
    )*};
}

from_numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize i128);

macro_rules! from_texts {
    ($($text:ty)*) => {$(
        impl From<$text> for Key {
            #[inline]
            fn from(text: $text) -> Self {
                Self::text(text)
            }
        }
    )*};
}

from_texts!(&str String Box<str> Arc<str> Cow<'_, str>);

impl From<&String> for Key {
    fn from(text: &String) -> Self {
        Self::text(text.as_str())
    }
}

impl From<&Key> for Key {
    fn from(key: &Key) -> Self {
        key.clone()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view() {
            View::Number(number) => number.fmt(f),
            View::Text(text) => text.fmt(f),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.view() {
            View::Number(number) => write!(f, "Key({number})"),
            View::Text(text) => write!(f, "Key({text:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::format;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn a_key_is_three_words_and_so_is_none() {
        assert_eq!((size_of::<Key>(), size_of::<Option<Key>>()), (24, 24));
    }

    #[test]
    fn numbers_of_any_size_stay_what_they_are() {
        for number in [0, 1, -1, 42, i128::from(u64::MAX), i128::MAX, i128::MIN, -1 << 64] {
            assert_eq!(Key::from(number).to_string(), number.to_string());
            assert_eq!(Key::from(number).cmp(&Key::from(7)), number.cmp(&7));
        }
        assert_eq!(Key::from(-1_i8), Key::from(-1_i128));
    }

    #[test]
    fn texts_of_any_length_stay_what_they_are() {
        let texts: Vec<String> =
            (0..60).map(|len| "ä b".chars().cycle().take(len).collect()).collect();
        for (n, text) in texts.iter().enumerate() {
            let key = Key::from(text);
            assert_eq!(key.to_string(), *text);
            assert_eq!(format!("{key:?}"), format!("Key({text:?})"));
            assert_eq!(key, Key::from(Arc::<str>::from(text.as_str())));
            for other in &texts[n..] {
                assert_eq!(key.cmp(&Key::from(other)), text.cmp(other));
            }
        }
        let keys: HashSet<Key> = texts.iter().chain(&texts).map(Key::from).collect();
        assert_eq!(keys.len(), texts.len());
    }

    #[test]
    fn a_text_is_no_number_and_zeros_count() {
        assert!(Key::from(i128::MAX) < Key::from(""));
        assert_ne!(Key::from("a"), Key::from("a\0"));
    }
}
