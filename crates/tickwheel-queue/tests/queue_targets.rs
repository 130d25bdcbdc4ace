//! Push targets as rows of the store.

use tickwheel_queue::{Access, Error, QueueSettings, Queues, SettingsPatch, StoredTarget};

fn aimed_at(target: Option<&str>) -> SettingsPatch {
    SettingsPatch { target: Some(target.map(str::to_owned)), ..SettingsPatch::default() }
}

#[test]
fn targets_and_their_states_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::open(folder.path()).unwrap();
    queues.put_target("b", "second").wait().unwrap();
    queues.put_target("a", "first").wait().unwrap();
    queues.put_target_state("a", "held").wait().unwrap();
    queues.put_target("a", "changed").wait().unwrap();
    queues.patch_settings("orders", aimed_at(Some("a"))).wait().unwrap();
    drop(queues);

    let queues = Queues::open(folder.path()).unwrap();
    let found = queues.targets().wait().unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|target| (&target.name[..], &target.definition[..], &target.state[..]))
        .collect();
    assert_eq!(shown, [("a", &b"changed"[..], &b"held"[..]), ("b", b"second", b"")]);
    let settings = queues.queue("orders").wait().unwrap().unwrap().settings;
    assert_eq!(settings.target.as_deref(), Some("a"));
    let in_use = Error::TargetInUse { target: "a".into(), queue: "orders".into() };
    assert_eq!(queues.remove_target("a").wait(), Err(in_use));
    queues.patch_settings("orders", aimed_at(None)).wait().unwrap();
    queues.remove_target("a").wait().unwrap();
    assert_eq!(queues.target("a").wait().unwrap(), None);
    // A target that is added again starts without its old state.
    queues.put_target("a", "new").wait().unwrap();
    assert!(queues.target("a").wait().unwrap().unwrap().state.is_empty());
}

#[test]
fn a_queue_names_only_a_target_that_exists() {
    let queues = Queues::in_memory();
    let refused = queues.patch_settings("orders", aimed_at(Some("partner"))).wait();
    assert_eq!(refused, Err(Error::NoSuchTarget("partner".into())));
    let settings = QueueSettings { target: Some("partner".into()), ..QueueSettings::default() };
    let refused = queues.configure("orders", settings.clone()).wait();
    assert_eq!(refused, Err(Error::NoSuchTarget("partner".into())));
    assert_eq!(queues.queue("orders").wait().unwrap(), None);
    assert!(queues.put_target_state("partner", "").wait().is_err());
    assert!(queues.remove_target("partner").wait().is_err());
    queues.put_target("partner", "").wait().unwrap();
    queues.configure("orders", settings.clone()).wait().unwrap();
    assert_eq!(queues.queue("orders").wait().unwrap().unwrap().settings, settings);
}

#[test]
fn targets_require_access_to_all_queues() {
    let queues = Queues::in_memory();
    queues.put_target("partner", "").wait().unwrap();
    let tenant = queues.limited_to(Access::to(["orders-*"]));
    let forbidden = || Err(Error::ForbiddenTarget("partner".into()));
    assert_eq!(tenant.put_target("partner", "").wait(), forbidden());
    assert_eq!(tenant.put_target_state("partner", "").wait(), forbidden());
    assert_eq!(tenant.remove_target("partner").wait(), forbidden());
    assert!(tenant.targets().wait().is_err() && tenant.target("partner").wait().is_err());
    let aim = tenant.patch_settings("orders-eu", aimed_at(Some("partner"))).wait();
    assert_eq!(aim.map(|_| ()), forbidden());
    // Other settings of a queue that has a target can be changed.
    queues.patch_settings("orders-eu", aimed_at(Some("partner"))).wait().unwrap();
    let patch = SettingsPatch { max_attempts: Some(3), ..SettingsPatch::default() };
    assert!(tenant.patch_settings("orders-eu", patch).wait().is_ok());
    assert_eq!(tenant.patch_settings("orders-eu", aimed_at(None)).wait().map(|_| ()), forbidden());
    assert!(queues.limited_to(Access::to(["*"])).targets().wait().is_ok());
}

#[test]
fn limits_of_targets_hold() {
    let limits = tickwheel_queue::Limits { targets: 1, ..tickwheel_queue::Limits::default() };
    let queues = Queues::builder().limits(limits).in_memory().unwrap();
    queues.put_target("a", "").wait().unwrap();
    queues.put_target("a", "again").wait().unwrap();
    assert!(matches!(queues.put_target("b", "").wait(), Err(Error::OverLimit { .. })));
    assert!(matches!(queues.put_target("", "").wait(), Err(Error::Invalid { .. })));
    let large = vec![0; StoredTarget::MAX_BYTES + 1];
    assert!(matches!(queues.put_target("a", large).wait(), Err(Error::Invalid { .. })));
}
