//! Names that callers give to tasks.

use core::fmt;
use std::borrow::Cow;
use std::boxed::Box;
use std::string::String;
use std::sync::Arc;

/// The name that a caller gives to a task: a string or a number. It is not
/// [`wheel::Key`](crate::wheel::Key), which a wheel makes to say where it keeps a timer.
///
/// Anything that converts into a key can be given where one is wanted. Scheduling a key again
/// replaces its task.
///
/// ```
/// use tickwheel::Key;
///
/// assert_eq!(Key::from("order-42"), Key::from(String::from("order-42")));
/// assert_eq!(Key::from(42_u32), Key::from(42_u64));
/// assert_ne!(Key::from("42"), Key::from(42));
/// assert_eq!(Key::from("order-42").to_string(), "order-42");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Name);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Name {
    Number(i128),
    Text(Arc<str>),
}

macro_rules! from_numbers {
    ($($number:ty)*) => {$(
        impl From<$number> for Key {
            fn from(number: $number) -> Self {
                Self(Name::Number(number as i128))
            }
        }
    )*};
}

from_numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize i128);

macro_rules! from_texts {
    ($($text:ty)*) => {$(
        impl From<$text> for Key {
            fn from(text: $text) -> Self {
                Self(Name::Text(text.into()))
            }
        }
    )*};
}

from_texts!(&str String Box<str> Arc<str> Cow<'_, str>);

impl From<&String> for Key {
    fn from(text: &String) -> Self {
        Self(Name::Text(text.as_str().into()))
    }
}

impl From<&Key> for Key {
    fn from(key: &Key) -> Self {
        key.clone()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Name::Number(number) => number.fmt(f),
            Name::Text(text) => text.fmt(f),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Name::Number(number) => write!(f, "Key({number})"),
            Name::Text(text) => write!(f, "Key({text:?})"),
        }
    }
}
