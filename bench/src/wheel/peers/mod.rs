//! The systems that the wheels are compared with.

mod binary_heap;
mod btree_map;
mod delay_queue;
mod hash_wheel_timer;

pub(super) use binary_heap::LazyHeap;
pub(super) use btree_map::OrderedMap;
pub(super) use delay_queue::TokioDelayQueue;
pub(super) use hash_wheel_timer::HashWheelTimer;
