//! A pool: records of one type, addressed by index, in an [`Arena`], which frees unused memory.

use core::ops::{Index, IndexMut};

use super::arena::{Arena, NIL, Record, Vacancy};

pub(crate) struct Pool<T> {
    places: Arena<Place<T>>,
}

enum Place<T> {
    Taken(T),
    /// The index of the next free place.
    Free(u32),
}

impl<T> Record for Place<T> {
    type Legacy = ();
    type Beside = ();

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

    fn forget_from((): &mut (), _places: usize) {}
}

impl<T> Pool<T> {
    pub(crate) fn new() -> Self {
        Self { places: Arena::new((), ()) }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(crate) fn insert(&mut self, record: T) -> u32 {
        let (index, vacancy, ()) = self.places.vacancy();
        match vacancy {
            Vacancy::Used(place) => *place = Place::Taken(record),
            Vacancy::Fresh(places, ()) => places.push(Place::Taken(record)),
        }
        index
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let taken = self.places.free(index, |place, ()| {
            match core::mem::replace(place, Place::Free(NIL)) {
                Place::Taken(record) => Some((record, true)),
                Place::Free(_) => None,
            }
        });
        taken.expect("the record is in use")
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        match self.places.get(index)? {
            Place::Taken(record) => Some(record),
            Place::Free(_) => None,
        }
    }

    /// Returns the last index before `index` at which a record may be.
    pub(crate) fn place_before(&self, index: u32) -> Option<u32> {
        self.places.place_before(index)
    }

    /// Returns the indices of all records.
    #[cfg(feature = "pace")]
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> {
        let taken = |(index, place)| matches!(place, &Place::Taken(_)).then_some(index);
        self.places.iter().filter_map(taken)
    }

    /// Prefetches a record that will be needed soon.
    #[cfg(feature = "pace")]
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        self.places.prefetch(index);
    }

    /// Frees memory without records.
    #[cfg(feature = "pace")]
    pub(crate) fn shrink(&mut self) {
        self.places.shrink_to_fit();
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.places.memory_usage()
    }
}

impl<T> Index<u32> for Pool<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        self.get(index).expect("the record is in use")
    }
}

impl<T> IndexMut<u32> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        match self.places.get_mut(index) {
            Some(Place::Taken(record)) => record,
            _ => panic!("the record is not in use"),
        }
    }
}
