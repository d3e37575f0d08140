"""The attacks on a masked sum, each with its test and the weakened variant that it breaks.

Where `BROKEN` is empty, the attack is an audit or a property that has no weaker form to compare with.
A weakened variant is broken if a secret is recovered, more is spent than is charged, an epsilon is
refuted, or a result is not the sum over its roster.
"""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
MASKED = "tests/agents/masked/"


class Attack(NamedTuple):
    """One attack: the test that it fails in, and the test in which it breaks a weakened variant."""

    what: str
    test: str
    broken: str
    how: str


KEYS, ROSTERS, LEDGERS = (
    f"{MASKED}test_section9_{part}.py" for part in ("keys", "rosters", "ledgers")
)
SESSION, MASKS, ADDING, RECORDS, CHAOS, LEMMA = (
    f"{MASKED}test_{part}.py"
    for part in ("session", "masks", "adding_up", "records", "session_chaos", "lemma")
)
REFUNDS, WRITTEN, POOL = (
    f"{MASKED}test_{part}.py" for part in ("refunds", "written_first", "pool")
)
SECRETS = "tests/agents/runtime/test_masked_secrets.py"
REAL = "tests/agents/chaos/test_masked_chaos.py"
AUDIT = "tests/auditing/test_sum_audit.py"


def attack(what: str, where: str, test: str, broken: str, how: str) -> Attack:
    """`broken` is in the same file, or names its own."""
    second = broken if "::" in broken or not broken else f"{where}::{broken}"
    return Attack(what, f"{where}::{test}", second, how)


def same(what: str, where: str, test: str, how: str) -> Attack:
    """The weakened variant is a parameter of the test, or its second half."""
    return attack(what, where, test, test, how)


ATTACKS = [
    same("copied ephemeral key, a whole session", KEYS, "test_a_copied_ephemeral_key_reads_nobody",
         "labels left out of the derivation: the pad is 0, z is v"),
    attack("copied ephemeral key, the pad", MASKS,
           "test_a_copied_key_does_not_cancel_the_pad_of_an_honest_member",
           "test_without_labels_in_the_derivation_a_copied_key_cancels_the_pad",
           "labels left out of the derivation: the pad is 0"),
    same("copied ephemeral key, a doubled mask", MASKS, "test_a_copied_key_does_not_double_a_mask",
         "labels order the keys only: the pad is even, z tells v's parity"),
    same("another record under a known signature", POOL,
         "test_a_known_signature_serves_no_other_record",
         "verdicts by signature: a forged record is taken"),
    same("second certificate or signing key for a label", KEYS,
         "test_a_second_signing_key_for_a_label_is_not_taken",
         "names pinned instead of keys: v recovered"),
    same("key of low order", KEYS, "test_a_key_of_low_order_gives_a_mask_that_everybody_knows",
         "secret taken as it comes: an outsider computes the mask"),
    same("key that is not canonical", KEYS,
         "test_another_encoding_of_a_key_would_be_a_copy_that_looks_different",
         "the library: one secret for two keys"),
    same("replay from another nonce or epoch", KEYS,
         "test_a_replayed_session_of_another_run_is_no_result",
         "names without run and manifest: an old sum is today's result"),
    same("replay from another attempt or view", KEYS,
         "test_records_of_an_earlier_attempt_do_not_serve_in_the_next",
         "a signature without its session: an old Present is of this attempt"),
    attack("10^5 bad signatures", KEYS,
           "test_a_hundred_thousand_bad_signatures_cost_one_verification_each_and_no_memory",
           "test_a_variant_that_verifies_later_holds_what_nobody_signed",
           "verified after it is stored: forged records keep a true one out"),
    same("|F| = n - d - 1", ROSTERS, "test_a_roster_of_one_less_than_n_minus_d_reads_nobody",
         "any size: v recovered, and epsilon more than four times as large"),
    same("roster with a repeated name", ROSTERS, "test_a_roster_that_repeats_a_name_reads_nobody",
         "a list instead of a bitmap: v recovered"),
    same("roster with an unknown name", ROSTERS,
         "test_a_roster_with_a_name_of_no_member_reads_nobody", "names not checked: v recovered"),
    same("roster with a foreign own key", ROSTERS,
         "test_a_roster_with_a_foreign_own_key_costs_nothing",
         "rho not checked: charged for a value of no sum"),
    attack("equivocated Roster", ROSTERS, "test_a_second_roster_of_a_session_is_not_followed",
           "test_a_variant_that_follows_two_rosters_of_a_session_is_read",
           "sets keyed by bytes: the difference of two sums is v"),
    same("equivocated Commit", ROSTERS, "test_two_commitments_of_one_member_cost_nobody_anything",
         "a Ready for any commitments: all are charged, there is no sum"),
    same("equivocated Ready", ROSTERS, "test_two_readys_of_one_member_are_evidence",
         "a Ready for any commitments: all are charged"),
    same("a Ready from outside the roster", ROSTERS,
         "test_a_ready_from_outside_the_roster_does_not_make_up_for_one_within",
         "counted by number: all are charged, there is no sum"),
    same("a Commit from outside the roster", ROSTERS,
         "test_a_commitment_from_outside_the_roster_does_not_make_up_for_one_within",
         "counted by number: ready for commitments of another roster"),
    same("silent before Ready", ROSTERS, "test_a_member_that_is_never_ready_costs_nobody_anything",
         "Ready not waited for: all are charged"),
    same("equivocated z", SESSION, "test_two_values_of_one_member_give_one_sum",
         "values that open nothing are added: two results"),
    same("wrapped and implausible sums", ROSTERS, "test_a_wrapped_or_implausible_sum_is_no_result",
         "no bounds: a result beyond 2^62"),
    attack("a kill at every write", SESSION,
           "test_a_kill_at_every_write_leaves_one_value_and_one_charge",
           f"{CHAOS}::test_a_ledger_that_forgets_what_it_sent_is_found",
           "SENT remembered as WITHDRAWN: two values of an attempt"),
    same("a kill right after SENT", LEDGERS,
         "test_a_kill_right_after_a_value_was_sent_leaves_one_value",
         "SENT written late: two values, one charge"),
    attack("ledger restored, network split", LEDGERS,
           "test_a_restored_ledger_in_a_split_network_does_not_leak",
           "test_a_restored_ledger_in_a_split_network_leaks_if_two_rosters_have_one_honest_member_"
           "in_common", "n - c - 2d = 1: in two closed sums for one charge"),
    same("ledger restored, own record heard", SESSION,
         "test_a_restored_ledger_stops_at_the_first_own_record_that_it_does_not_know",
         "own records overlooked: it goes on, and what it sent is not charged"),
    same("two processes, a copied directory", LEDGERS,
         "test_a_copied_directory_is_noticed_before_both_send",
         "own records overlooked: two values of an attempt"),
    same("only link: z held back, then a retry without its owner", SESSION,
         "test_the_owner_of_an_only_link_cannot_read_the_member_behind_it",
         "noise kept: the difference of two sums is v"),
    attack("repair by revealing masks", LEMMA,
           "test_published_values_are_uniform_given_their_closed_sum",
           "test_revealing_the_masks_of_a_dead_member_reads_its_value", "v recovered"),
    same("silent after Ready, in every attempt", LEDGERS,
         "test_a_member_that_falls_silent_after_ready_again_and_again_drains_at_most_a_attempts",
         "silent ones readmitted, A not bounded: 5 eps instead of 2"),
    same("attempt A + 1", LEDGERS, "test_a_further_attempt_is_refused_before_anything_is_drawn",
         "A known to the ledger alone: noise is drawn for it"),
    same("the time of a view, after SENT", SESSION,
         "test_an_attempt_that_has_sent_ends_at_its_own_deadline_only",
         "a view's time ends the attempt: epsilon is spent again"),
    attack("a write that fails", WRITTEN, "test_nothing_is_said_that_could_not_be_written",
           "test_a_variant_that_says_first_has_said_a_value_that_was_not_charged",
           "said, then written: a value that was not charged is passed on"),
    same("a noise source that sleeps", LEDGERS, "test_a_noise_source_that_sleeps_moves_no_message",
         "noise drawn after Present: the Commit is late"),
    same("a withdrawn commitment, all sums tried", LEDGERS,
         "test_a_commitment_that_was_withdrawn_is_not_opened_by_trying_all_sums",
         "a known salt: the sum is read and a is not charged"),
    same("kinds and sizes of records", LEDGERS,
         "test_kinds_and_sizes_of_records_do_not_depend_on_readings_or_noise",
         "a member that refuses much noise: the sequence tells it"),
    attack("class sums, c draws known", AUDIT,
           "test_as_many_colluders_as_are_covered_learn_no_more_than_epsilon",
           "test_half_of_the_noise_is_refuted_by_samples_alone", "beta = 0.5: refuted"),
    same("class sums of vectors", AUDIT, "test_vectors_too", "beta = 0.5: refuted"),
    attack("false refunds", REFUNDS, "test_false_refunds_are_refused",
           "test_with_c_1_withdrawals_a_sum_is_refunded_that_a_colluder_can_read",
           "c + 1 withdrawals suffice: a sum is read and refunded"),
    attack("keys, secrets, v and eta in what was written", SECRETS,
           "test_a_masked_sum_writes_no_secret", "test_a_variant_that_writes_a_secret_is_found",
           "no masks: v in the ledger; a key in the log"),
    attack("kills, loss and partitions over real processes", REAL,
           "test_a_few_masked_agents_are_killed_and_cut_apart", "", ""),
    attack("masks on a sparse graph", LEMMA,
           "test_published_values_are_uniform_given_their_closed_sum",
           "test_masks_on_a_sparse_graph_leak_the_sums_of_its_components",
           "sums of components read"),
]  # fmt: skip


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("one", ATTACKS, ids=lambda one: one.what)
def test_every_attack_has_its_tests(one: Attack) -> None:
    for place in filter(None, (one.test, one.broken)):
        path, name = place.split("::")
        assert name in names_in(path), place
    assert bool(one.broken) is bool(one.how)
