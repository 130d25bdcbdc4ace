//! The work that every system is given: keys in random orders from a fixed seed.

use fastrand::Rng;

use crate::work::SEED;

/// All keys in a random order, another one for each pass. Keys are no small numbers: they are what
/// customers are called.
pub(super) fn keys(count: usize, pass: u64) -> Vec<u64> {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut keys: Vec<u64> = (0..count as u64).map(|key| key.wrapping_mul(SPREAD)).collect();
    Rng::with_seed(SEED + pass).shuffle(&mut keys);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_has_the_same_keys_in_another_order() {
        let [mut one, mut two] = [0, 1].map(|pass| keys(1_000, pass));
        assert_ne!(one, two);
        assert_eq!(one, keys(1_000, 0));
        one.sort_unstable();
        two.sort_unstable();
        assert_eq!(one, two);
    }
}
