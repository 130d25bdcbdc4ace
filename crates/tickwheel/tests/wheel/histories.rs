//! Both wheels against the plain model, on random histories.
//!
//! Both wheels use the same strategies, which prefer cases that have broken wheels before: ticks
//! next to a power of two, whole turns of a ring, ties, the past, the end of time, timers that are
//! set between two pops of the same tick, keys that are no longer valid. A short scripted history
//! also visits every start and every boundary once.

use crate::model::{Case, Op, Pick, Shape, When};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Exponents at which some wheel has a boundary: 2^6k, 2^8k, and where counters wrap.
const EXPONENTS: [u8; 22] =
    [1, 3, 6, 8, 9, 12, 16, 18, 24, 30, 31, 32, 33, 36, 40, 42, 48, 54, 56, 60, 62, 63];

/// The ring sizes that the hashed wheel is tested with.
const RINGS: [u16; 8] = [1, 2, 8, 64, 100, 512, 1000, 4096];

/// A failing history is printed as Rust code, to be added as a test at the end of this file. A seed
/// would give another history as soon as a strategy changes.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn exponent() -> impl Strategy<Value = u8> {
    prop_oneof![
        4 => select(&EXPONENTS[..7]),
        2 => select(&EXPONENTS[..]),
        1 => 0..64_u8,
    ]
}

/// Generates a tick to start at: 0, next to a boundary, at the last tick, or anywhere.
fn start() -> impl Strategy<Value = When> {
    prop_oneof![
        2 => (0..4_i8).prop_map(When::Near),
        8 => (select(&EXPONENTS[..]), -3..4_i8).prop_map(|(e, few)| When::Power(e, few)),
        2 => (0..4_u8).prop_map(When::End),
        1 => (0..=255_u8).prop_map(When::End),
        1 => any::<u64>().prop_map(When::At),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        3 => Just(Pick::First),
        6 => any::<u16>().prop_map(Pick::Any),
        1 => any::<u16>().prop_map(Pick::Stale),
        1 => any::<u8>().prop_map(Pick::Foreign),
    ]
}

fn deadline() -> impl Strategy<Value = When> {
    prop_oneof![
        4 => (-4..=20_i8).prop_map(When::Near),
        2 => any::<i8>().prop_map(When::Near),
        4 => (exponent(), -1..=1_i8).prop_map(|(e, few)| When::Power(e, few)),
        4 => (exponent(), -1..=1_i8).prop_map(|(e, few)| When::Boundary(e, few)),
        3 => (select(&[0, 1, 3, 6, 9, 12][..]), 1..4_u8).prop_map(|(e, n)| When::Turns(e, n)),
        4 => (pick(), -1..=1_i8).prop_map(|(pick, few)| When::Like(pick, few)),
        1 => (0..64_u8).prop_map(When::Ago),
        1 => any::<u64>().prop_map(When::At),
        1 => (0..3_u8).prop_map(When::End),
    ]
}

/// Generates steps of time. Most are small, because a history that has reached the last tick stays
/// there.
fn jump() -> impl Strategy<Value = When> {
    prop_oneof![
        12 => Just(When::Near(0)),
        12 => (1..=4_i8).prop_map(When::Near),
        4 => any::<i8>().prop_map(When::Near),
        12 => (Just(Pick::First), -1..=1_i8).prop_map(|(pick, few)| When::Like(pick, few)),
        8 => (select(&EXPONENTS[..7]), -1..=1_i8).prop_map(|(e, few)| When::Boundary(e, few)),
        2 => (select(&EXPONENTS[..]), -1..=1_i8).prop_map(|(e, few)| When::Boundary(e, few)),
        2 => (0..40_u8, -1..=1_i8).prop_map(|(e, few)| When::Power(e, few)),
        2 => (pick(), -1..=1_i8).prop_map(|(pick, few)| When::Like(pick, few)),
        1 => (0..64_u8).prop_map(When::Ago),
        1 => any::<u64>().prop_map(When::At),
        1 => (0..3_u8).prop_map(When::End),
    ]
}

fn insert() -> impl Strategy<Value = Op> {
    let step = prop_oneof![Just(0), 0..4_u16, Just(512), any::<u16>()];
    prop_oneof![
        8 => deadline().prop_map(Op::Insert),
        1 => (2..80_u8, deadline(), step).prop_map(|(n, first, step)| Op::InsertMany(n, first, step)),
    ]
}

fn pop() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => jump().prop_map(Op::Pop),
        2 => jump().prop_map(Op::PopAll),
        3 => (jump(), 0..40_u8).prop_map(|(when, budget)| Op::Advance(when, budget)),
        2 => (jump(), 0..40_u8).prop_map(|(when, budget)| Op::PopInSteps(when, budget)),
        3 => Just(Op::Wake),
    ]
}

fn change() -> impl Strategy<Value = Op> {
    let reset_every = (1..6_u8, deadline(), 0..600_u16);
    prop_oneof![
        8 => pick().prop_map(Op::Remove),
        2 => (1..6_u8).prop_map(Op::RemoveEvery),
        12 => (pick(), deadline()).prop_map(|(pick, when)| Op::Reset(pick, when)),
        2 => (any::<u16>()).prop_map(|n| Op::Reset(Pick::Any(n), When::Like(Pick::Any(n), 0))),
        4 => reset_every.prop_map(|(stride, when, step)| Op::ResetEvery(stride, when, step)),
        1 => pick().prop_map(Op::Change),
    ]
}

fn rare() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Clear),
        any::<u8>().prop_map(Op::Drain),
        Just(Op::Shrink),
        (0..2000_u16).prop_map(Op::Reserve),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![30 => insert(), 30 => pop(), 20 => change(), 1 => rare()]
}

fn case(shape: impl Strategy<Value = Shape>) -> impl Strategy<Value = Case> {
    (shape, start(), vec(op(), 1..100)).prop_map(|(shape, start, ops)| Case { shape, start, ops })
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn hierarchical_agrees_with_the_model(case in case(Just(Shape::Hierarchical))) {
        case.run();
    }

    #[test]
    fn hashed_agrees_with_the_model(case in case(select(&RINGS[..]).prop_map(Shape::Hashed))) {
        case.run();
    }

    /// Without resets and removals, the model also checks that the hierarchical wheel keeps the
    /// order of insertion among equal deadlines.
    #[test]
    fn hierarchical_keeps_the_order_of_insertion(
        start in start(),
        ops in vec(prop_oneof![insert(), pop()], 1..100),
    ) {
        Case { shape: Shape::Hierarchical, start, ops }.run();
    }
}

proptest! {
    #![proptest_config(config(150))]

    /// Thousands of timers are reset repeatedly, so that stale references are swept.
    #[test]
    fn crowds_agree_with_the_model(
        shape in prop_oneof![Just(Shape::Hierarchical), select(&RINGS[..]).prop_map(Shape::Hashed)],
        start in start(),
        crowd in vec((deadline(), any::<u16>()), 4..12),
        ops in vec(prop_oneof![2 => change(), 1 => insert(), 1 => pop()], 10..60),
    ) {
        let crowd = crowd.into_iter().map(|(when, step)| Op::InsertMany(255, when, step));
        Case { shape, start, ops: crowd.chain(ops).collect() }.run();
    }
}

/// Timers on both sides of a boundary, some moved across it, popped tick by tick.
fn across(exponent: u8) -> Vec<Op> {
    let mut ops: Vec<Op> = (-3..=3).map(|few| Op::Insert(When::Boundary(exponent, few))).collect();
    ops.extend([
        Op::Insert(When::Power(exponent, 0)),
        Op::Insert(When::Power(exponent.saturating_add(1), 0)),
        Op::Insert(When::End(0)),
        Op::Reset(Pick::Any(1), When::Boundary(exponent, 4)),
        Op::Reset(Pick::Any(5), When::Boundary(exponent, -4)),
        Op::PopAll(When::Near(0)),
        Op::Insert(When::Boundary(exponent, 0)),
        Op::PopAll(When::Boundary(exponent, -2)),
        Op::Advance(When::Boundary(exponent, 0), 0),
        Op::Insert(When::Boundary(exponent, 1)),
    ]);
    ops.extend(
        [Op::Pop(When::Near(0)), Op::Pop(When::Near(1)), Op::Insert(When::Near(0))].repeat(5),
    );
    ops
}

#[test]
fn every_boundary_is_crossed_from_every_start() {
    let shapes = [Shape::Hierarchical, Shape::Hashed(1), Shape::Hashed(64), Shape::Hashed(512)];
    let starts = (0..64_u8).flat_map(|exponent| (-3..=3_i8).map(move |few| (exponent, few)));
    for (exponent, few) in starts {
        for shape in shapes {
            let start = When::Power(exponent, few);
            Case { shape, start, ops: across(exponent) }.run();
        }
    }
}

#[test]
fn every_boundary_is_crossed_from_zero() {
    for exponent in 0..64 {
        for shape in [Shape::Hierarchical, Shape::Hashed(8), Shape::Hashed(512)] {
            Case { shape, start: When::Near(0), ops: across(exponent) }.run();
        }
    }
}

#[test]
fn time_may_end() {
    for before in 0..=12 {
        for shape in [Shape::Hierarchical, Shape::Hashed(1), Shape::Hashed(8), Shape::Hashed(512)] {
            for exponent in [0, 1, 2, 3, 8, 9] {
                Case { shape, start: When::End(before), ops: across(exponent) }.run();
            }
        }
    }
}

/// Found by a random history: at the last tick, with one timer more than 2^24 rounds away, the
/// hashed wheel searched its slots for ever.
#[test]
fn time_ends_with_a_timer_beyond_all_rounds() {
    for shape in [Shape::Hashed(1), Shape::Hashed(8), Shape::Hashed(512)] {
        let ops = vec![
            Op::Insert(When::Near(3)),
            Op::Insert(When::Power(40, 0)),
            Op::Insert(When::End(0)),
            Op::PopAll(When::End(0)),
        ];
        Case { shape, start: When::Near(0), ops }.run();
    }
}
