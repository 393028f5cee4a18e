//! The decision tree against the filters asked one by one, with random filters and messages.

use proptest::prelude::*;
use proptest::sample::select;
use sfi_ash::filter::{Base, Field, Filter, Test, widest};
use sfi_ash::head::Head;
use sfi_ash::tree::{Tree, TreeError};

/// Fields that overlap, near the places where packets differ.
fn field() -> impl Strategy<Value = Field> {
    let base = select(vec![Base::Frame, Base::Network, Base::Transport, Base::Payload]);
    let mask = select(vec![u64::MAX, 0xf0, 0x0f, 1, 0xffff_0000]);
    (base, 0..14_usize, select(vec![1_usize, 2, 4, 8]), mask)
        .prop_filter_map("a mask", |(base, offset, width, mask)| {
            Field::new(base, offset, width, mask & widest(width)).ok()
        })
}

/// Filters that ask for bytes from 0 to 2, so that some match.
fn filter() -> impl Strategy<Value = Filter> {
    let value = prop_oneof![Just(0_u64), Just(1), Just(0x0102), Just(2), any::<u64>()];
    prop::collection::vec((field(), value), 0..4).prop_filter_map("a filter", |tests| {
        Filter::new(tests.into_iter().map(|(field, value)| Test { field, value: value & field.mask() })).ok()
    })
}

/// Messages: noise of few different bytes, and packets that may be damaged.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(0..3_u8, 0..80);
    let packet =
        (noise.clone(), 0..3_u8, any::<prop::sample::Index>(), 0..3_u8).prop_map(|(data, options, at, damage)| {
            let mut frame = vec![0; 34 + 4 * usize::from(options)];
            frame[12] = 8;
            frame[14] = 0x45 + options;
            frame[23] = if data.len() >= 8 { 17 } else { 1 };
            frame.extend_from_slice(&data);
            let total = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&total.to_be_bytes());
            let transport = 34 + 4 * usize::from(options);
            if data.len() >= 8 {
                frame[transport + 4..transport + 6].copy_from_slice(&(data.len() as u16).to_be_bytes());
            }
            if damage == 0 {
                let at = at.index(frame.len());
                frame[at] ^= 1;
            }
            frame
        });
    prop_oneof![noise, packet]
}

/// Asks the filters one by one.
fn naive(filters: &[Filter], head: &Head) -> Option<usize> {
    filters.iter().position(|f| f.tests().iter().all(|test| head.field(&test.field) == Some(test.value)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_answers_as_the_filters_do(
        filters in prop::collection::vec(filter(), 0..14),
        messages in prop::collection::vec(message(), 30),
    ) {
        match Tree::new(&filters) {
            Ok(tree) => for message in &messages {
                let head = Head::of(message);
                prop_assert_eq!(tree.find(&head), naive(&filters, &head), "{:?}", message);
            },
            Err(error) => prop_assert_eq!(error, TreeError::Nodes),
        }
    }
}

/// The random test above would also pass if nothing ever matched.
#[test]
fn random_messages_do_match_random_filters() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut matched, mut missed) = (0, 0);
    for _ in 0..200 {
        let filters = prop::collection::vec(filter(), 1..8).new_tree(&mut runner).unwrap().current();
        let head = Head::of(&message().new_tree(&mut runner).unwrap().current());
        match naive(&filters, &head).filter(|found| !filters[*found].tests().is_empty()) {
            Some(_) => matched += 1,
            None => missed += 1,
        }
    }
    assert!(matched > 10 && missed > 10, "{matched} matched, {missed} did not");
}
