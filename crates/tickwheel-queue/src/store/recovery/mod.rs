//! Recovery from crashes and damage, in the order of an opening:
//!
//! 1. [`inventory`] checks that every file is there and whole, so that fjall does not take damage
//!    for a store whose creation was interrupted.
//! 2. [`acknowledged`] says which commit was the last that a caller was told about.
//! 3. [`journal`] reads the journals and refuses them if an acknowledged commit is missing.
//! 4. [`salvage`], only when the operator asks for it, copies what is readable into a new store;
//!    [`loss`] counts the jobs that it leaves out.
//!
//! Nothing here changes a file before everything was checked, and what a salvage replaces is kept
//! beside the store.

pub(super) mod acknowledged;
pub(super) mod inventory;
pub(super) mod journal;
pub(super) mod loss;
pub(super) mod salvage;
