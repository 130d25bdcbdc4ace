//! The texts of the page: one table for each language, with the same keys.
//!
//! A struct holds them, so a key that a table lacks does not compile. `{}` and names in braces stand
//! for values. Keys that begin with `js_` go to the scripts. Those that begin with `trouble_` are the
//! sentences about health, which the API tells in English.

mod en;
mod zh;

use std::collections::BTreeMap;

pub(crate) use en::EN;
use tickwheel_api::TargetCause;
pub(crate) use zh::ZH;

use crate::frame::{Theme, TimeFormat};

macro_rules! texts {
    ($($key:ident)*) => {
        /// All texts of the page in one language.
        ///
        /// ```
        /// use tickwheel_page::Language;
        /// assert_eq!(Language::Chinese.texts().get("queues"), Some("队列"));
        /// ```
        #[derive(Debug)]
        pub struct Texts {
            $(pub(crate) $key: &'static str,)*
        }

        impl Texts {
            /// All keys, in the order of the tables.
            pub const KEYS: &[&str] = &[$(stringify!($key)),*];

            /// Returns the text with a key.
            pub fn get(&self, key: &str) -> Option<&'static str> {
                match key {
                    $(stringify!($key) => Some(self.$key),)*
                    _ => None,
                }
            }
        }
    };
}

texts! {
    language_name skip navigation overview wheel queues queue jobs schedules targets put
    language theme theme_auto theme_light theme_dark times times_relative times_local times_utc
    apply api_docs signed_in read_only login logout login_wrong login_hint token request_id back
    now time_in time_ago live_pause health all_on_time trouble_store_silent trouble_store_error
    trouble_store_failed trouble_disk_full trouble_disk_nearly_full trouble_damaged
    trouble_waits trouble_waits_target trouble_waits_no_worker trouble_waits_one_worker
    trouble_waits_workers trouble_waits_limits trouble_held_for trouble_held trouble_stopped
    trouble_no_reason cause_answered cause_redirected cause_timeout cause_unresolved cause_denied
    cause_unreachable cause_tls cause_disconnected cause_resumed cause_other cause_recovering
    no_data none rate_in rate_out rate_failed lateness oldest_ready held
    workers worker upcoming due_ready due_minute due_hour due_day due_month due_later open_wheel
    history more_queues no_queues no_match no_match_yet search_on filter filter_queues paused
    pause resume since_start count_put count_delivered count_acked count_failed count_expired
    count_died errors error newest actions show retry groups group waiting running more_groups
    settings setting_lease setting_max_attempts setting_retry setting_rate setting_concurrency
    setting_group_rate setting_group_concurrency setting_keep_done setting_keep_dead
    setting_keep_cancelled setting_target setting_order setting_fair_groups order_due
    order_priority save bulk bulk_hint kick_dead remove_dead remove_done remove_cancelled
    cancel_waiting remove_queue ask_kick ask_remove_dead ask_remove_done ask_remove_cancelled
    ask_cancel_waiting ask_remove ask_remove_schedule ask_bulk_retry ask_bulk_run
    ask_bulk_reschedule ask_bulk_cancel keep_them at_least progress_retry progress_run
    progress_reschedule progress_cancel progress_skipped go_on stop confirm column_name
    column_scheduled column_ready column_leased column_dead column_oldest column_lateness state
    state_scheduled state_ready state_leased state_dead state_done state_cancelled any_state
    all_queues job_id key key_prefix error_text due_from due_to search clear select select_all
    run_now delay reschedule cancel due attempts attempt error_or_payload damaged_jobs next_page
    select_some created finished priority leased_until on_success on_death last_error payload
    payload_cut download result headers timeline took detail outcome_done outcome_failed
    outcome_expired outcome_released outcome_cancelled no_schedules timezone every every_period
    fired last_run next_runs no_next_run remove new_schedule name check no_targets target_active
    target_slow target_held target_stopped target_paused test test_of next_probe in_flight
    timeout request response last_responses status time job_put due_at on_conflict payload_kind
    kind_auto kind_json kind_text kind_base64 headers_hint as_commands copy no_errors
    errors_partial wheel_hint wheel_keys on_wheel wheel_ready beyond horizon levels level slots
    slot slot_span ring_span occupied leases slots_listed from to wheel_empty more_slots
    done_paused done_resumed done_saved done_kicked done_removed done_removed_queue
    done_removed_schedule done_cancelled done_rescheduled done_run done_logged_out cluster node
    address owned_partitions clock_difference draining partition owner no_owner epoch replicas
    lag replica_owner replica_standby replica_seeding replica_halted js_live js_paused
    js_disconnected js_connecting js_pause js_resume js_copied js_rates js_lateness js_depth
    js_failures js_pacing js_put js_delivered js_acked js_failed js_died js_time js_slot
    js_ready js_on_disk js_on_wheel js_leased js_dead js_scheduled js_no_history
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
impl Texts {
    /// Returns the text whose key is a prefix and a name; the empty text if there is none.
    fn named(&self, prefix: &str, name: &str) -> &'static str {
        self.get(&format!("{prefix}_{}", name.replace('-', "_"))).unwrap_or_default()
    }

    pub(crate) fn state(&self, name: &str) -> &'static str {
        self.named("state", name)
    }

    pub(crate) fn setting(&self, name: &str) -> &'static str {
        self.named("setting", name)
    }

    pub(crate) fn kind(&self, name: &str) -> &'static str {
        self.named("kind", name)
    }

    pub(crate) fn question(&self, name: &str) -> &'static str {
        self.named("ask", name)
    }

    pub(crate) fn progress(&self, name: &str) -> &'static str {
        self.named("progress", name)
    }

    pub(crate) fn column(&self, column: &crate::QueueSort) -> &'static str {
        self.named("column", column.as_str())
    }

    pub(crate) fn outcome(&self, outcome: &tickwheel_api::AttemptOutcome) -> &'static str {
        self.named("outcome", outcome.as_str())
    }

    pub(crate) fn target_state(&self, state: &tickwheel_api::TargetState) -> &'static str {
        self.named("target", state.as_str())
    }

    pub(crate) fn theme_name(&self, theme: &Theme) -> &'static str {
        self.named("theme", theme.as_str())
    }

    pub(crate) fn times_name(&self, times: &TimeFormat) -> &'static str {
        self.named("times", times.as_str())
    }

    /// Returns what an action did, if there is such an action.
    pub(crate) fn done(&self, action: &str) -> Option<&'static str> {
        self.get(&format!("done_{}", action.replace('-', "_")))
    }

    /// Returns the sentence about a trouble with its values, which are named in braces. A value
    /// that may itself contain braces comes last.
    ///
    /// ```
    /// use tickwheel_page::Language;
    /// let values = [("{queue}", "mail"), ("{time}", "4 min")];
    /// let sentence = Language::English.texts().trouble("waits", &values);
    /// assert_eq!(sentence, "mail: the oldest ready job has waited for 4 min");
    /// ```
    pub fn trouble(&self, name: &str, values: &[(&str, &str)]) -> String {
        let sentence = self.named("trouble", name).to_owned();
        values.iter().fold(sentence, |text, (place, value)| text.replacen(place, value, 1))
    }

    /// Returns why a target is not active or a request failed. `text` is the same in English, for a
    /// cause that an older version stored without a code.
    ///
    /// ```
    /// use tickwheel_api::{TargetCause, TargetCauseCode};
    /// use tickwheel_page::Language;
    /// let cause = TargetCause {
    ///     code: TargetCauseCode::Timeout,
    ///     detail: "10s".to_owned(),
    ///     recovering: false,
    /// };
    /// let sentence = Language::Chinese.texts().cause(Some(&cause), "no answer within 10s");
    /// assert_eq!(sentence, "在 10s 内没有响应");
    /// ```
    pub fn cause(&self, cause: Option<&TargetCause>, text: &str) -> String {
        let Some(TargetCause { code, detail, recovering }) = cause else { return text.to_owned() };
        let sentence = self.named("cause", code.as_str()).replacen("{}", detail, 1);
        if *recovering { self.cause_recovering.replacen("{}", &sentence, 1) } else { sentence }
    }

    /// Returns the texts of the scripts, as a JSON object.
    pub(crate) fn for_scripts(&self) -> String {
        let keys = Self::KEYS.iter().filter_map(|key| Some((key.strip_prefix("js_")?, *key)));
        let others = ["no_data", "paused", "now", "time_in", "time_ago", "all_on_time"];
        let texts: BTreeMap<_, _> = keys
            .chain(others.map(|key| (key, key)))
            .filter_map(|(name, key)| Some((name, self.get(key)?)))
            .collect();
        serde_json::to_string(&texts).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use tickwheel_api::TargetCauseCode;

    use super::*;

    /// The placeholders of a text, in alphabetical order.
    fn placeholders(text: &str) -> Vec<&str> {
        let mut found: Vec<_> =
            text.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn both_languages_have_every_key_with_the_same_placeholders() {
        for key in Texts::KEYS {
            let (english, chinese) = (EN.get(key).unwrap(), ZH.get(key).unwrap());
            assert!(!english.is_empty() && !chinese.is_empty(), "{key}");
            assert_eq!(placeholders(english), placeholders(chinese), "{key}");
        }
        assert_eq!(EN.get("nothing"), None);
    }

    #[test]
    fn every_name_that_pages_look_up_has_a_text() {
        for texts in [&EN, &ZH] {
            let states = crate::JOB_STATES.map(|name| texts.state(name));
            let columns = crate::QueueSort::ALL.map(|column| texts.column(&column));
            let kinds = crate::PAYLOAD_KINDS.map(|name| texts.kind(name));
            let themes = Theme::ALL.map(|theme| texts.theme_name(&theme));
            let times = TimeFormat::ALL.map(|times| texts.times_name(&times));
            let targets = tickwheel_api::TargetState::ALL.map(|state| texts.target_state(&state));
            let causes = TargetCauseCode::ALL.map(|code| texts.named("cause", code.as_str()));
            let all = [&states[..], &columns, &kinds, &themes, &times, &targets, &causes].concat();
            assert!(all.iter().all(|text| !text.is_empty()), "{all:?}");
        }
    }

    #[test]
    fn a_cause_is_told_in_each_language_with_its_detail_unchanged() {
        let cause = |code, recovering| TargetCause { code, detail: "{} <b>".into(), recovering };
        let answered = cause(TargetCauseCode::Answered, true);
        assert_eq!(EN.cause(Some(&answered), ""), "recovering: answered {} <b>");
        assert_eq!(ZH.cause(Some(&answered), ""), "正在恢复:目标返回 {} <b>");
        assert_eq!(ZH.cause(Some(&cause(TargetCauseCode::Resumed, false)), ""), "刚刚恢复");
        assert_eq!(ZH.cause(None, "answered 410"), "answered 410");
    }

    #[test]
    fn scripts_get_their_texts_as_json() {
        let texts: BTreeMap<String, String> = serde_json::from_str(&ZH.for_scripts()).unwrap();
        assert_eq!(texts["disconnected"], ZH.js_disconnected);
    }
}
