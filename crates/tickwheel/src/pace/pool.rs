//! Records of one kind, named by index, in memory that goes back when it is not needed: the arena
//! of the wheels.

use core::ops::{Index, IndexMut};

use crate::wheel::arena::{Arena, NIL, Record, Vacancy};

pub(super) struct Pool<T> {
    places: Arena<Place<T>>,
}

enum Place<T> {
    Taken(T),
    /// A link to the next free place.
    Free(u32),
}

impl<T> Record for Place<T> {
    type Legacy = ();

    fn link(&self) -> u32 {
        match self {
            Self::Free(next) => *next,
            Self::Taken(_) => NIL,
        }
    }

    fn set_link(&mut self, next: u32) {
        *self = Self::Free(next);
    }

    fn pass_on(&self, (): ()) {}

    fn renew((): ()) {}
}

impl<T> Pool<T> {
    pub(super) fn new() -> Self {
        Self { places: Arena::new(()) }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(super) fn insert(&mut self, record: T) -> u32 {
        let (index, vacancy) = self.places.vacancy();
        match vacancy {
            Vacancy::Used(place) => *place = Place::Taken(record),
            Vacancy::Fresh(places, ()) => places.push(Place::Taken(record)),
        }
        index
    }

    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> T {
        let taken =
            self.places.free(index, |place| match core::mem::replace(place, Place::Free(NIL)) {
                Place::Taken(record) => Some((record, true)),
                Place::Free(_) => None,
            });
        taken.expect("a record is removed once")
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        match self.places.get(index)? {
            Place::Taken(record) => Some(record),
            Place::Free(_) => None,
        }
    }

    /// The index of every record.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> {
        let taken = |(index, place)| matches!(place, &Place::Taken(_)).then_some(index);
        self.places.iter().filter_map(taken)
    }

    /// Tells the processor that a record will be needed soon.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        self.places.prefetch(index);
    }

    /// Gives back what memory it can.
    pub(super) fn shrink(&mut self) {
        self.places.shrink_to_fit();
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.places.memory_usage()
    }
}

impl<T> Index<u32> for Pool<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        self.get(index).expect("a record that is in use")
    }
}

impl<T> IndexMut<u32> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        match self.places.get_mut(index) {
            Some(Place::Taken(record)) => record,
            _ => panic!("a record that is in use"),
        }
    }
}
