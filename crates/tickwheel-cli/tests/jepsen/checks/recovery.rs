//! The service accepts jobs again soon after a fault has ended.

use std::collections::BTreeMap;

/// A fault that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) name: String,
    /// When everything ran again, in milliseconds of the test's clock.
    pub(crate) ended: u64,
}

/// The longest recovery after each kind of fault.
pub(crate) type Longest = BTreeMap<String, u64>;

/// Finds the first successful put after each fault. `puts` contains the times of the answers.
pub(crate) fn check(faults: &[Fault], puts: &[u64], budget_ms: u64) -> (Longest, Vec<String>) {
    let (mut longest, mut wrong) = (Longest::new(), Vec::new());
    for Fault { name, ended } in faults {
        let recovered = puts.iter().filter(|answered| *answered >= ended).min();
        let Some(recovered) = recovered else {
            wrong.push(format!("no put succeeded after {name} had ended at {ended}"));
            continue;
        };
        let took = recovered - ended;
        let most = longest.entry(name.clone()).or_default();
        *most = took.max(*most);
        if took > budget_ms {
            wrong.push(format!(
                "the first put after {name} succeeded {took} ms after its end at {ended}: at most \
                 {budget_ms} ms are allowed"
            ));
        }
    }
    (longest, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault() -> Fault {
        Fault { name: "a kill".to_owned(), ended: 1_000 }
    }

    #[test]
    fn a_quick_recovery_passes() {
        let (longest, wrong) = check(&[fault()], &[10, 1_500, 1_400], 500);
        assert_eq!((longest["a kill"], wrong.len()), (400, 0));
    }

    #[test]
    fn a_slow_recovery_is_detected() {
        let (_, wrong) = check(&[fault()], &[10, 1_600], 500);
        assert!(wrong[0].contains("600 ms after its end"), "{wrong:?}");
    }

    #[test]
    fn no_recovery_is_detected() {
        let (_, wrong) = check(&[fault()], &[10], 500);
        assert!(wrong[0].contains("no put succeeded"), "{wrong:?}");
    }
}
