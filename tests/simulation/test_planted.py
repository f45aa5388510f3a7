"""Planted bugs that the simulator must find: proof that it can see."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import pytest

from tests.simulation.options import Options
from tests.simulation.plants import BY_NAME
from tests.simulation.run import run_seed
from tests.thorough import few_of

pytestmark = pytest.mark.timeout(600)  # the rarest needs many seeds, beside whatever else runs

SEEDS = 60
"""How many are tried, since the product changes, and with it what a seed does."""
FIRST_SEEDS: dict[str, int] = {
    "what_was_seen_of_a_wrong_folder_is_held_against_the_right_one": 107,
    "checkpoints_forget_what_is_not_told": 16,
    "instances_do_not_know_what_the_others_wrote": 4,
    "lower_terms_are_followed": 22,
    "leaders_stay_whatever_term_they_hear_of": 8,
    "candidates_stand_in_a_term_that_they_know": 21,
    "old_terms_are_committed_by_count": 2,
    "truncation_is_forgotten": 10,
    "records_tell_of_more_than_is_committed": 2,
    "events_count_for_later_timers": 26,
    "leader_answers_without_a_round": 32,
    "any_round_confirms_a_read": 41,
    "successors_are_taken_at_the_leaders_word": 59,
    "damaged_datagrams_arrive": 2,
    "distrust_is_not_durable": 2,
    "forgotten_votes_are_given_again": 6,
    "learners_are_counted": 37,
    "configurations_are_forgotten_by_a_restart": 11,
    "two_changes_at_once": 60,
    "orders_outlive_their_leader": 87,
    "a_new_leader_takes_orders_while_suspended": 50,
    "snapshots_of_a_minority_are_given_away": 29,
    "a_new_term_begins_without_a_mark": 9,
    "skips_count_before_they_are_committed": 163,
    "skips_are_forgotten_by_a_restart": 24,
    "members_in_doubt_serve": 47,
    "successors_go_by_their_own_clocks": 2,
    "service_runs_ahead_of_its_snapshot": 26,
    "modules_wait_for_services_that_stand_still": 11,
    "a_log_that_is_whole_again_is_compared_with_what_was_left_of_it": 6,
    "the_end_of_a_log_is_believed": 12,
    "requests_wait_for_room_for_the_answers_of_their_service": 2,
    "session_ids_start_again": 6,
    "evidence_is_forgotten_with_the_state": 2,
    "what_is_lost_is_told_as_nothing": 4,
    "recoveries_end_before_all_is_written": 49,
    "a_forgotten_log_goes_on_with_other_lengths": 9,
    "snapshots_forget_that_a_principal_has_a_bound": 2,
    "what_records_tell_is_not_believed": 2,
    "two_votes_in_a_term": 5,
    "places_that_cannot_be_read_are_left": 4,
    "snapshots_forget_how_many_messages_came": 2,
    "a_full_disk_is_full_for_ever": 10,
    "refusals_count_as_votes": 5,
    "copies_write_the_state_of_their_end": 2,
    "snapshots_forget_ids": 2,
    "older_data_counts": 2,
    "commits_are_noted_now_and_then": 2,
    "nobody_tells_who_led_an_earlier_term": 2,
}
"""Where the seeds begin for bugs that not every seed shows, or shows soon: one that showed it when this was written."""
MS = 1_000_000
S = 1_000_000_000
LOST_FOR_GOOD = Options(duration_ns=S, operation_mean_ns=4 * MS, levels=True, loses_for_good=True)
FORGETFUL = Options(
    duration_ns=6 * S, operation_mean_ns=4 * MS, padding_max=3000, snapshot_every_bytes=60 * 1024, snapshots_kept=1,
    retention_bytes=0, retention_patience_s=0, kill_mean_ns=2 * S, partition_mean_ns=S, outage_mean_ns=S,
    heartbeat_timeout_ns=200 * MS,
    heartbeat_interval_ns=20 * MS, loss=0.01,
)  # fmt: skip
ASKING = Options(
    duration_ns=4 * S, requests="journal", operation_mean_ns=2 * MS, kill_mean_ns=S // 2, client_mean_ns=S // 4,
    snapshot_mean_ns=300 * MS, outage_mean_ns=300 * MS, leave_chance=0.01, padding_max=200,
)  # fmt: skip
POISONED = Options(
    duration_ns=4 * S, operation_mean_ns=4 * MS, on_error="restore", poison_chance=0.01, own_error_mean_ns=S // 2,
    snapshot_mean_ns=500 * MS, kill_mean_ns=S, partition_mean_ns=S, outage_mean_ns=500 * MS,
    heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
DIFFERENT = Options(
    duration_ns=4 * S, operation_mean_ns=5 * MS, difference_mean_ns=500 * MS, snapshot_mean_ns=500 * MS,
    kill_mean_ns=2 * S, partition_mean_ns=2 * S, outage_mean_ns=500 * MS,
    heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
WRITTEN = Options(
    duration_ns=4 * S, applications=3, application_mean_ns=200 * MS, operation_mean_ns=8 * MS, padding_max=200,
    snapshot_mean_ns=300 * MS, kill_mean_ns=S, power_loss_mean_ns=2 * S, partition_mean_ns=S, client_mean_ns=S,
    outage_mean_ns=300 * MS,
)  # fmt: skip
REPEATING = replace(ASKING, requests="ids", levels=True)
KEPT = replace(
    ASKING, levels=True, services=2, kept_bytes_max=2000, heartbeat_timeout_ns=200 * MS,
    heartbeat_interval_ns=20 * MS,
)  # fmt: skip
COMPARED = replace(WRITTEN, applications=1, canary=True, levels=True)
WRITTEN_BY_ID = replace(WRITTEN, application_ids=True, levels=True)
QUERIED = replace(WRITTEN, duration_ns=2 * S, query_mean_ns=10 * MS)
STANDING_BY = replace(WRITTEN, application_mode="active-passive", session_timeout_ns=S)
CONSUMED = Options(
    duration_ns=4 * S, consumers=2, shared_consumers=2, consumer_mean_ns=300 * MS, operation_mean_ns=8 * MS,
    padding_max=200, snapshot_mean_ns=300 * MS, kill_mean_ns=S, power_loss_mean_ns=2 * S, partition_mean_ns=S,
    client_mean_ns=S, outage_mean_ns=300 * MS, session_timeout_ns=2 * S,
)  # fmt: skip
REFUSED = replace(CONSUMED, levels=True)
PUBLISHED = Options(
    duration_ns=4 * S, feed_readers=2, reader_mean_ns=300 * MS, operation_mean_ns=4 * MS, padding_max=200,
    snapshot_mean_ns=300 * MS, kill_mean_ns=S, power_loss_mean_ns=2 * S, partition_mean_ns=S, outage_mean_ns=300 * MS,
)  # fmt: skip
TIMED = Options(
    duration_ns=6 * S, clock_mean_ns=S // 2, kill_mean_ns=S, transfer_mean_ns=S, outage_mean_ns=300 * MS,
    heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
MICROS = replace(TIMED, time_unit="us")
GOES_OVER = replace(
    TIMED, levels=True, goes_over_to="us", snapshot_mean_ns=S, session_timeout_ns=4 * S, operation_mean_ns=5 * MS
)
STAMPED = replace(TIMED, levels=True, clock_report_ns=200 * MS)
ARRIVED = replace(TIMED, levels=True, arrivals=True, requests="requests", operation_mean_ns=5 * MS, duration_ns=2 * S)
LATE = Options(duration_ns=S // 2, operation_mean_ns=10 * MS, late_files=True)
UPGRADED = Options(
    duration_ns=4 * S, operation_mean_ns=5 * MS, upgrade_mean_ns=400 * MS, snapshot_mean_ns=700 * MS, kill_mean_ns=S,
    partition_mean_ns=S, outage_mean_ns=400 * MS, heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
SCHEMED = replace(UPGRADED, schemas=True, levels=True, snapshot_mean_ns=400 * MS, duration_ns=6 * S)
FULL = Options(
    duration_ns=4 * S, operation_mean_ns=2 * MS, padding_max=3000, disk_bytes=700 * 1024, disk_low=400 * 1024,
    disk_high=600 * 1024, kill_mean_ns=2 * S, outage_mean_ns=300 * MS,
)  # fmt: skip
COPIED = Options(
    duration_ns=4 * S, operation_mean_ns=4 * MS, snapshot_mean_ns=300 * MS, copies=True, kill_mean_ns=S,
    outage_mean_ns=300 * MS, heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
CONTESTED = Options(
    nodes=3, clients=1, duration_ns=6 * S, operation_mean_ns=50 * MS, tangle_mean_ns=S // 3, slow_link_mean_ns=S // 3,
    outage_mean_ns=300 * MS, delay_max_ns=20 * MS, loss=0.1, heartbeat_timeout_ns=200 * MS,
    heartbeat_interval_ns=20 * MS, election_timeout_ns=100 * MS,
)  # fmt: skip
HASHED = replace(
    DIFFERENT, snapshot_mean_ns=0, levels=True, state_hash_every_bytes=64, transfer_mean_ns=S, membership_mean_ns=0
)
SERVED = Options(
    duration_ns=3 * S, services=2, service_record_limit=1, operation_mean_ns=2 * MS, snapshot_mean_ns=200 * MS,
    kill_mean_ns=S, outage_mean_ns=300 * MS, heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
SERVED_UPGRADED = replace(SERVED, upgrade_mean_ns=300 * MS)
SERVED_APART = replace(SERVED_UPGRADED, upgrades_one=True, levels=True)
LACKING = replace(SERVED_APART, lack_chance=0.5, kill_mean_ns=400 * MS, duration_ns=4 * S)
READING = Options(
    duration_ns=4 * S, clients=2, query_mean_ns=2 * MS, operation_mean_ns=3 * MS, strand_mean_ns=S // 3,
    outage_mean_ns=300 * MS, reordering=0.1, delay_max_ns=5 * MS, reorder_delay_ns=50 * MS,
    heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
DOUBTED = Options(
    duration_ns=4 * S, operation_mean_ns=3 * MS, query_mean_ns=5 * MS, difference_mean_ns=S // 2,
    state_hash_every_bytes=2048, transfer_mean_ns=S // 5, snapshot_mean_ns=2 * S, heartbeat_timeout_ns=200 * MS,
    heartbeat_interval_ns=20 * MS,
)  # fmt: skip
RENEWED = Options(
    duration_ns=4 * S, orders_mean_ns=S // 2, renews=True, snapshot_mean_ns=S, heartbeat_timeout_ns=200 * MS,
    heartbeat_interval_ns=20 * MS,
)  # fmt: skip
VOLUMES = Options(
    duration_ns=4 * S, operation_mean_ns=5 * MS, volume_mean_ns=300 * MS, kill_mean_ns=S, partition_mean_ns=S,
    close_mean_ns=2 * S, outage_mean_ns=300 * MS, snapshot_mean_ns=700 * MS, heartbeat_timeout_ns=200 * MS,
    heartbeat_interval_ns=20 * MS, levels=True,
)  # fmt: skip
COPIED_WHILE_RUNNING = replace(VOLUMES, kill_mean_ns=0, partition_mean_ns=0, close_mean_ns=0, duration_ns=6 * S)
DAMAGED = Options(
    duration_ns=6 * S, operation_mean_ns=20 * MS, loss_mean_ns=300 * MS, partition_mean_ns=300 * MS,
    outage_mean_ns=600 * MS, heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
FORGOTTEN = Options(
    duration_ns=S, operation_mean_ns=5 * MS, loses_most=True, kill_mean_ns=S, levels=True,
    heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
LED_TWICE = Options(
    nodes=5, duration_ns=S // 2, operation_mean_ns=20 * MS, leads_twice=True, heartbeat_timeout_ns=200 * MS,
    heartbeat_interval_ns=20 * MS,
)  # fmt: skip
FALLING = Options(
    duration_ns=4 * S, operation_mean_ns=5 * MS, fall_mean_ns=300 * MS, outage_mean_ns=500 * MS,
    heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS, election_timeout_ns=100 * MS,
)  # fmt: skip
BOUNDED = Options(
    duration_ns=4 * S, operation_mean_ns=4 * MS, session_messages=100, tracks=True, padding_max=200, kill_mean_ns=2 * S,
    outage_mean_ns=300 * MS, heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS, levels=True,
)  # fmt: skip
SLOWED = Options(
    duration_ns=4 * S, operation_mean_ns=5 * MS, slow_disk_mean_ns=S // 2, kill_mean_ns=S, power_loss_mean_ns=2 * S,
    transfer_mean_ns=S, outage_mean_ns=500 * MS, heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
)  # fmt: skip
OPTIONS = {
    "syncs_are_through_by_the_next_heartbeat": SLOWED,
    "what_is_over_a_quota_is_thrown_away": BOUNDED,
    "logs_a_little_shorter_are_voted_for": FALLING,
    "nobody_tells_who_led_an_earlier_term": LED_TWICE,
    "whoever_led_a_term_its_log_is_the_same": LED_TWICE,
    "any_folder_is_taken": VOLUMES,
    "another_clusters_log_counts": VOLUMES,
    "older_data_counts": VOLUMES,
    "what_was_acknowledged_is_forgotten_by_a_restart": COPIED_WHILE_RUNNING,
    "positions_are_not_compared": COPIED_WHILE_RUNNING,
    "the_end_of_a_log_is_believed": VOLUMES,
    "log_that_was_committed_is_given_up": FORGOTTEN,
    "commits_are_noted_now_and_then": replace(FORGOTTEN, sync="none"),
    "what_records_tell_is_not_believed": FORGOTTEN,
    "a_log_that_is_whole_again_is_compared_with_what_was_left_of_it": DAMAGED,
    "a_log_begins_anew_behind_an_older_snapshot": RENEWED,
    "a_forgotten_log_goes_on_with_other_lengths": replace(RENEWED, renews_some=True),
    "a_snapshot_counts_that_one_service_has_not_taken": SERVED,
    "services_go_on_while_others_come_to_the_snapshot": replace(SERVED, cycle_ns=MS),
    "services_share_their_timers": replace(SERVED, services=3),
    "services_number_their_messages_together": SERVED,
    "one_service_applies_versions_late": SERVED_UPGRADED,
    "one_service_stays_at_its_version": SERVED_UPGRADED,
    "one_service_takes_the_versions_of_another": SERVED_APART,
    "snapshots_forget_the_versions_of_other_services": replace(
        SERVED_APART, retention_bytes=0, retention_patience_s=0, snapshots_kept=1
    ),
    "members_execute_with_the_code_that_they_have": LACKING,
    "members_without_the_code_look_for_no_snapshot": LACKING,
    "modules_wait_for_services_that_stand_still": LACKING,
    "nobody_minds_another_hash": HASHED,
    "nobody_asks_for_the_snapshot_that_is_needed": HASHED,
    "leaders_write_what_old_members_cannot_read": replace(HASHED, old_members=1),
    "members_that_were_not_heard_count_as_new": replace(HASHED, old_members=1),
    "snapshots_forget_the_level": replace(HASHED, snapshot_mean_ns=S // 2),
    "copies_write_the_state_of_their_end": COPIED,
    "the_module_is_captured_when_the_copy_is_done": COPIED,
    "nobody_hears_of_a_copy_that_died": replace(COPIED, copy_failure_chance=0.5),
    "snapshots_forget_the_sequences_of_feeds": PUBLISHED,
    "a_change_of_nodes_leaves_a_gap_in_feeds": PUBLISHED,
    "subscribers_join_the_shared_stream_with_a_gap": PUBLISHED,
    "what_a_failed_record_published_goes_out": replace(
        PUBLISHED, on_error="restore", poison_chance=0.01, own_error_mean_ns=S // 2
    ),
    "snapshots_forget_where_consumers_are": CONSUMED,
    "every_member_of_a_consumer_is_active": CONSUMED,
    "acknowledgements_do_not_survive_a_snapshot": CONSUMED,
    "members_that_are_gone_count_as_refusals": REFUSED,
    "snapshots_forget_that_only_refusals_count": REFUSED,
    "snapshots_forget_who_is_silent": REFUSED,
    "nobody_looks_at_the_room": FULL,
    "a_full_disk_is_full_for_ever": replace(FULL, fill_mean_ns=500 * MS, power_loss_mean_ns=S),
    "outputs_are_executed_again_after_a_snapshot": WRITTEN,
    "readers_are_given_what_is_not_committed": WRITTEN,
    "a_change_of_nodes_leaves_a_gap": WRITTEN,
    "readers_join_the_shared_stream_with_a_gap": WRITTEN,
    "the_shared_stream_has_what_is_not_committed": WRITTEN,
    "checkpoints_forget_outputs_under_way": WRITTEN,
    "members_do_not_look_at_the_ids_of_outputs": WRITTEN_BY_ID,
    "instances_send_outputs_again_without_their_ids": WRITTEN_BY_ID,
    "snapshots_forget_what_instances_reported": WRITTEN,
    "snapshots_forget_what_canaries_told": COMPARED,
    "checkpoints_forget_what_is_not_told": COMPARED,
    "checkpoints_forget_which_code_executes": replace(WRITTEN, application_upgrade=True),
    "applications_are_asked_for_no_position": QUERIED,
    "instances_answer_for_a_position_they_have_not_come_to": QUERIED,
    "two_instances_are_active": STANDING_BY,
    "nobody_takes_over": STANDING_BY,
    "instances_do_not_know_what_the_others_wrote": replace(WRITTEN, applications=1),
    "cluster_time_follows_the_wall_clock": TIMED,
    "successors_go_by_their_own_clocks": TIMED,
    "one_leader_stamps_in_another_unit": MICROS,
    "snapshots_forget_the_unit_of_time": replace(MICROS, snapshot_mean_ns=S // 2),
    "services_keep_the_deadlines_of_the_former_unit": GOES_OVER,
    "modules_compare_deadlines_with_times_of_another_unit": GOES_OVER,
    "sessions_are_silent_for_a_thousandth_of_their_time": GOES_OVER,
    "what_a_clock_was_first_told_is_reported_again": STAMPED,
    "reports_of_deposed_leaders_are_kept": STAMPED,
    "clocks_are_reported_to_old_members": replace(STAMPED, old_members=1),
    "only_the_first_term_of_a_leader_has_reports": STAMPED,
    "a_member_takes_its_own_time_for_that_of_arrival": ARRIVED,
    "arrivals_are_written_for_old_members": replace(ARRIVED, old_members=1),
    "images_whose_files_come_late_are_forgotten": LATE,
    "an_eighth_member_comes_to_old_ones": Options(nodes=7, spares=2, membership_mean_ns=100 * MS),
    "one_member_applies_versions_late": UPGRADED,
    "one_member_executes_all_with_its_newest_code": UPGRADED,
    "versions_are_forgotten_by_a_restart": UPGRADED,
    "different_members_are_told_and_trusted": DIFFERENT,
    "evidence_goes_with_old_snapshots": DIFFERENT,
    "states_that_a_hash_showed_are_cleared_away": HASHED,
    "evidence_is_forgotten_with_the_state": DIFFERENT,
    "a_different_state_is_taken_up_again": DIFFERENT,
    "members_in_doubt_serve": DOUBTED,
    "one_member_leaves_a_record_out_alone": POISONED,
    "half_done_state_is_kept": POISONED,
    "skips_count_before_they_are_committed": replace(
        POISONED, poison_chance=0.03, kill_mean_ns=400 * MS, partition_mean_ns=400 * MS
    ),
    "one_failure_is_enough": POISONED,
    "skips_are_forgotten_by_a_restart": replace(
        POISONED, poison_chance=0.03, kill_mean_ns=500 * MS, snapshot_mean_ns=250 * MS
    ),
    "what_is_mended_is_not_written": replace(Options(), scrub_ns=S // 2),
    "a_damaged_snapshot_stays_the_one_that_is_served": replace(Options(), scrub_ns=S // 2, snapshot_mean_ns=S // 4),
    "places_that_cannot_be_read_are_left": replace(Options(), scrub_ns=S // 2, padding_max=3000),
    "damage_behind_damage_is_not_looked_for": replace(Options(), scrub_ns=S // 2),
    "snapshots_forget_requests": ASKING,
    "snapshots_forget_answers": ASKING,
    "requests_wait_for_room_for_the_answers_of_their_service": KEPT,
    "snapshots_forget_that_a_principal_has_a_bound": KEPT,
    "snapshots_forget_ids": REPEATING,
    "snapshots_forget_the_numbers_of_messages": REPEATING,
    "numbers_go_on_after_snapshots_that_hold_none": ASKING,
    "snapshots_forget_the_schemas": SCHEMED,
    "each_leader_writes_its_schema": SCHEMED,
    "an_older_schema_supersedes_a_newer_one": SCHEMED,
    "code_that_contradicts_the_log_ends_its_member": replace(SCHEMED, has_other_code=True),
    "answers_tell_the_number_that_their_client_counts": ASKING,
    "ids_expire_too_early": REPEATING,
    "snapshots_forget_how_many_messages_came": replace(
        ASKING, requests="", tracks=True, client_mean_ns=0, nodes=1, kill_mean_ns=200 * MS, snapshot_mean_ns=30 * MS
    ),
    "a_new_term_begins_without_a_mark": replace(ASKING, requests="", tracks=True, client_mean_ns=0),
    "identities_expire_too_early": ASKING,
    "requests_are_sent_before_they_are_in_the_journal": ASKING,
    "a_closed_client_confirms_what_it_has_not_seen": ASKING,
    "log_goes_before_a_quorum_has_the_snapshot": FORGETFUL,
    "a_fetched_snapshot_keeps_the_old_log": FORGETFUL,
    "a_start_forgets_who_waits": replace(FORGETFUL, retention_patience_s=30, kill_mean_ns=S // 2),
    "snapshots_of_a_minority_are_given_away": Options(
        duration_ns=4 * S, operation_mean_ns=3 * MS, padding_max=3000, snapshot_every_bytes=30 * 1024, snapshots_kept=1,
        retention_bytes=0, retention_patience_s=0, kill_mean_ns=S // 2, outage_mean_ns=S // 2,
        heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS, delay_max_ns=20 * MS, sync_max_ns=30 * MS,
    ),
    "leader_answers_without_a_round": Options(
        duration_ns=6 * S, registers=1, query_mean_ns=S // 50, partition_mean_ns=S // 2, outage_mean_ns=2 * S
    ),
    "successors_are_taken_at_the_leaders_word": Options(
        duration_ns=6 * S, transfer_mean_ns=S // 4, partition_mean_ns=S, slow_link_mean_ns=S // 2, loss=0.05,
        delay_max_ns=5 * MS, operation_mean_ns=2 * MS,
    ),
    "positions_before_terms": Options(
        duration_ns=4 * S, strand_mean_ns=S // 2, operation_mean_ns=5 * MS, outage_mean_ns=2 * S
    ),
    "leaders_stay_whatever_term_they_hear_of": CONTESTED,
    "votes_of_earlier_ballots_count": replace(
        CONTESTED, tangle_mean_ns=S // 10, slow_link_mean_ns=S // 10, strand_mean_ns=400 * MS, delay_max_ns=100 * MS,
        loss=0.2, heartbeat_timeout_ns=100 * MS, election_timeout_ns=60 * MS, heartbeat_interval_ns=20 * MS,
    ),
    "leaders_answer_before_their_term_has_begun": Options(
        clients=2, duration_ns=4 * S, operation_mean_ns=5 * MS, query_mean_ns=2 * MS, registers=1, kill_mean_ns=S // 3,
        transfer_mean_ns=S // 3, outage_mean_ns=200 * MS, heartbeat_timeout_ns=200 * MS, heartbeat_interval_ns=20 * MS,
        election_timeout_ns=100 * MS,
    ),
    "any_round_confirms_a_read": READING,
    "orders_outlive_their_leader": Options(
        duration_ns=2 * S, orders_mean_ns=S // 2, partition_mean_ns=S // 4, outage_mean_ns=2 * S
    ),
    "what_is_lost_is_told_as_nothing": LOST_FOR_GOOD,
    "a_new_epoch_keeps_the_identity": LOST_FOR_GOOD,
    "former_members_stay_voters": LOST_FOR_GOOD,
    "members_start_in_the_middle_of_a_recovery": LOST_FOR_GOOD,
    "recoveries_end_before_all_is_written": LOST_FOR_GOOD,
}  # fmt: skip
"""For bugs that few of the drawn clusters show: leaders that are replaced and do not know it are rare, and so are
transfers while much is under way, orders that are never committed, and log that goes while members are away.
Drawn clusters showed the longer log of an older term within 55 seeds, a round that confirms later reads within 179."""


IN_EVERY_RUN = frozenset({
    "acknowledgement_before_sync", "commit_on_a_minority", "execution_runs_ahead_of_commit", "late_events_fire_timers",
    "configurations_are_forgotten_by_a_restart", "vote_is_not_durable", "learners_are_counted", "two_votes_in_a_term",
    "leader_answers_without_a_round", "snapshots_forget_timers", "execution_goes_on_during_a_snapshot",
    "session_ids_start_again", "forgotten_votes_are_given_again", "what_is_over_a_quota_is_thrown_away",
    "members_do_not_look_at_the_ids_of_outputs", "every_member_of_a_consumer_is_active",
    "the_module_is_captured_when_the_copy_is_done", "what_a_failed_record_published_goes_out",
    "evidence_goes_with_old_snapshots", "snapshots_forget_the_numbers_of_messages", "snapshots_forget_the_schemas",
    "a_snapshot_counts_that_one_service_has_not_taken", "what_is_lost_is_told_as_nothing",
    "members_that_are_gone_count_as_refusals",
    "a_log_begins_anew_behind_an_older_snapshot", "snapshots_forget_ids", "snapshots_forget_the_unit_of_time",
    "any_folder_is_taken", "another_clusters_log_counts", "refusals_count_as_votes",
    "what_is_not_known_to_be_committed_is_thrown_away", "syncs_are_through_by_the_next_heartbeat",
})  # fmt: skip
"""One of each kind, and of each file, that shows soon; `make test SUITE=thorough` finds all of them, as CI does."""


BROKEN = ("ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "TypeError")
"""What a simulation ends with that does not fit the code: every bug would be found by it."""


@pytest.mark.parametrize("name", few_of(BY_NAME, IN_EVERY_RUN))
def test_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BY_NAME[name](monkeypatch.setattr)
    first = FIRST_SEEDS.get(name, 1)
    outcomes = (run_seed(seed, copy(OPTIONS.get(name))) for seed in range(first, first + SEEDS))
    found = next((outcome.violation for outcome in outcomes if outcome.violation is not None), None)
    assert found is not None, f"not found in {SEEDS} seeds from {first} on"
    assert not found.startswith(BROKEN), f"the run broke where nothing was planted: {found}"


def test_seeds_and_options_are_those_of_planted_bugs() -> None:
    assert FIRST_SEEDS.keys() | OPTIONS.keys() | IN_EVERY_RUN <= BY_NAME.keys()


def test_every_run_has_a_bug_of_each_file() -> None:
    assert {BY_NAME[name].__module__ for name in IN_EVERY_RUN} == {plant.__module__ for plant in BY_NAME.values()}
