"""The secure sum on a board: which post follows which (`secure_sum` has the protocol and its proof).

    question ── consents ── Keys of keepers ── Query ── Deals ── Roster ── Answers ── the sum

The asker proposes: it lists sites that agreed and keepers whose Keys it holds in a Query, and the Deals that
it holds in a Roster. It is not trusted: all numbers are those that the authority signed (`numbers_of`), and
each site and keeper checks them for itself. Where each rule is kept on a board

    K1  check_query, again for each query, and `_deal` in the newest epoch alone
    K3  `Releases.covered`: one Deal a question, under all keys of a site, in all epochs; charged, claimed
    K4  `Releases.covered`: one Answer a question, the empty one included; claimed
    K7  keeper_key: a file of its own, erased after the Answer, or once the question is over
    K8  words are kept in the transaction of the Answer, and posted once answers do not fit together
    K9  `_close`, `_refund`: below

A keeper that has not answered a week after the deadline says that it never will: its Answer is empty. It is
claimed and durable like any other, so that one that is restored from a copy, key and all, cannot answer after
all. When k - t + c + 1 keepers have said so, the sum can never be opened, and each site gives back to its
budget what its Deal cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from veilsum.errors import FleetError
from veilsum.fleet.answers import BoardAnswer, Posted, sites_of
from veilsum.fleet.board import Board
from veilsum.fleet.budget_units import FOREVER
from veilsum.fleet.keeper_key import erase, key_file, made_key, read_secret
from veilsum.fleet.membership import KEEPER, SITE
from veilsum.fleet.post import Kind, Topic
from veilsum.fleet.protocol import BoardProtocol, Work, consents_of
from veilsum.fleet.release import Draft
from veilsum.fleet.release_rules import SECURE_SUM, noise_for
from veilsum.fleet.secure_sum.answer import CheckWords, answer
from veilsum.fleet.secure_sum.blame import Accused
from veilsum.fleet.secure_sum.close import CLOSED, refundable
from veilsum.fleet.secure_sum.deal import deal, public_key
from veilsum.fleet.secure_sum.query import Keeper, SumQuery, key_body, read_key
from veilsum.fleet.secure_sum.roster import CarriedDeal, SumRoster, check_roster, deal_hash, propose
from veilsum.fleet.secure_sum.total import enough, total
from veilsum.fleet.sum_posts import (
    MARK,
    PostedQuery,
    accused,
    answers_of,
    bodies,
    bound_of,
    carried,
    check_query,
    closed_by,
    deals_of,
    dealt,
    found_sum,
    keys_of,
    listed_keys,
    numbers_of,
    posted_query,
    query_name,
    query_of,
    roster_of,
    summed,
)
from veilsum.privacy.exact.entropy import Entropy, read

PATIENCE = 7 * 86_400  # seconds after the deadline after which a keeper never answers


def proposed(board: Board, posted: Posted, key: bytes, agreed: Sequence[str]) -> SumQuery:
    """The query that the asker makes of the sites that agreed and the Keys that it holds."""
    membership, question = board.membership, posted.question
    assert membership is not None
    sites = tuple((m.name, m.public) for m in membership.having(SITE) if m.name in agreed)
    keepers = tuple(
        Keeper(name, read_key(post.body)[1], post.header.hash)
        for name, post in sorted(keys_of(board, posted).items())
    )
    numbers = numbers_of(membership, len(sites)).listed(len(keepers))
    if question.length > 1:
        numbers = numbers.packed(question.length)
    return SumQuery(
        query_name(question), question.digest, membership.id, membership.digest, membership.number, sites,
        keepers, key, question.deadline or 0, numbers, question.length, bound_of(question, numbers),
    )  # fmt: skip


class SumProtocol(BoardProtocol):
    """One post a site, one answer a keeper."""

    name = SECURE_SUM

    def answer(self, board: Board, posted: Posted) -> BoardAnswer | None:
        """The sum; None, too, of one that is not plausible: `stage` says so."""
        try:
            return summed(board, posted)
        except FleetError:
            return None

    # ---- a site and keeper

    def due(self, work: Work) -> None:
        """Make a Key, deal, answer: whatever comes next for this site and keeper."""
        query = query_of(work.board, work.posted)
        if query is None:
            self._key(work)
        elif self._accepted(work, query):
            self._deal(work, query)
            self._answer(work, query)
            self._words(work, query)
        self._close(work)
        if query is not None:
            self._refund(work, query)

    def _key(self, work: Work) -> None:
        """As a keeper: a key for this query alone, in a file of its own (rule K7)."""
        posted = work.board.register_of(Kind.KEY, work.posted.terms, work.seat.public).header
        if KEEPER not in work.seat.member.roles or posted is not None or work.now > over(work):
            return
        secret = made_key(own_file(work))
        work.publish(Kind.KEY, key_body(query_name(work.posted.question), public_key(secret)))

    def _accepted(self, work: Work, query: SumQuery) -> bool:
        """Whether this site found the query as the authority signed it, in the epoch that it is of.

        Yes is kept: the epoch may go on. No is not: what a Query lists may arrive after it.
        """
        file, fleet = work.seat.file, work.seat.fleet
        if file.decision(fleet, query.digest) is not None:
            return True
        try:
            self.check(work, query)
        except FleetError as error:
            if query.epoch == work.seat.membership.number:  # else it is over
                work.say(f"takes no part in {work.posted.question.title()}: {error}")
            return False
        with file.transaction():
            file.decide(fleet, query.digest, "yes", "", "rule K1", work.now)
        return True

    def check(self, work: Work, query: SumQuery) -> None:
        """Rule K1."""
        check_query(work.board, work.posted, query)

    def _deal(self, work: Work, query: SumQuery) -> None:
        """As a site: the only deal under this name, for ever (rule K3)."""
        topic, label = Topic(Kind.DEAL, work.posted.terms), work.seat.member.name
        listed = (label, work.seat.public) in query.sites
        if work.data is None or not listed or work.releases.covered(topic):
            return
        if work.now > query.deadline or query.epoch != work.seat.membership.number:
            return
        if roster_of(work.board, query) is not None:  # too late, and so for nothing
            return
        question, found = work.posted.question, work.data.table(work.posted.question)

        def make(entropy: Entropy) -> bytes:
            laws = noise_for(question, Fraction(1, query.numbers.honest))
            noise = [
                int(step)
                for law, length in zip(laws, question.lengths, strict=True)
                for step in law.draw(length, entropy)
            ]
            vector = [a + b for a, b in zip(found.steps, noise, strict=True)]
            return query.digest[:MARK] + deal(query, label, vector, read(entropy, 32))

        work.releases.draw(
            Draft(topic, 1, 1, make, b"", 1, found.records, work.spending(), fresh=True)
        )
        work.say(f"dealt to {question.title()}")

    def _answer(self, work: Work, query: SumQuery) -> None:
        """As a keeper: the only answer, for ever; the key is erased once it is durable (rules K4, K7)."""
        topic, label = Topic(Kind.ANSWER, work.posted.terms), work.seat.member.name
        if work.releases.covered(topic):
            erase(own_file(work))
            return
        secret = self._secret(work, query)
        roster = None if secret is None else roster_of(work.board, query)
        if roster is None or secret is None or work.now > over(work):
            return
        deals = deals_of(work.board, query, carried(query, roster))
        held = bodies(query, deals)
        try:
            made, words = answer(query, label, secret, roster, held, kept_words(work, query))
        except FleetError as error:
            work.say(f"does not answer {work.posted.question.title()} yet: {error}")
            return
        chosen = bodies(query, {hash: deals[hash] for _, hash in roster.deals})
        work.releases.draw(
            Draft(
                topic, 1, 1, lambda _: made, made, fresh=True,
                also=lambda: keep_words(work, query, roster, chosen, words),
            )
        )  # fmt: skip
        erase(own_file(work))
        work.say(f"answered {work.posted.question.title()}")

    def _secret(self, work: Work, query: SumQuery) -> bytes | None:
        """The key that the query lists, if this ledger's own key signed it: a lost ledger is silent (K7)."""
        point = query.point.get(work.seat.member.name)
        secret = None if point is None else read_secret(own_file(work))
        if point is None or secret is None:
            return None
        signed = listed_keys(work.board, work.posted).get(work.seat.member.name)
        own = signed is not None and signed.header.key == work.seat.public
        return secret if own and public_key(secret) == query.keepers[point - 1].key else None

    def _words(self, work: Work, query: SumQuery) -> None:
        """As a keeper: the single check words, once enough answers do not fit together (rule K8)."""
        row = work.seat.file.rows(
            "select data from words where fleet = ? and query = ? and mark = ?",
            work.seat.fleet, query.digest, b"",
        )  # fmt: skip
        answers = answers_of(work.board, work.posted) if row else {}
        if row and len(answers) >= enough(query) and not fits(query, answers):
            work.publish(Kind.WORDS, bytes(row[0][0]))

    def _close(self, work: Work) -> None:
        """As a keeper: say, once and for ever, that no answer will come; then the key is erased."""
        topic = Topic(Kind.ANSWER, work.posted.terms)
        asked = work.board.register_of(Kind.KEY, work.posted.terms, work.seat.public).post
        if work.now <= over(work) or asked is None or work.releases.covered(topic):
            return
        work.releases.draw(Draft(topic, 1, 1, lambda _: CLOSED, CLOSED, fresh=True))
        erase(own_file(work))
        work.say(f"closed {work.posted.question.title()}: it is never answered here")

    def _refund(self, work: Work, query: SumQuery) -> None:
        """As a site: give back what a deal cost whose sum can never be opened (rule K9)."""
        own = work.board.register_of(Kind.DEAL, work.posted.terms, work.seat.public).post
        if work.now <= over(work):  # nobody has closed it yet
            return
        if own is None or dealt(query, own.body) is None or not self.never(work, query):
            return
        with work.seat.file.transaction():
            given = work.releases.ledger.refund(work.posted.terms.hex(), work.seat.fleet.hex())
        if given:
            work.say(f"got back what {work.posted.question.title()} cost: it is never answered")

    def never(self, work: Work, query: SumQuery) -> bool:
        """Rule K9: whether too few keepers are left."""
        return refundable(query, closed_by(work.board, work.posted))

    # ---- the asker

    def propose(self, work: Work) -> None:
        """As the asker: the Query, when all have said yes or no, and the Roster, when all have dealt."""
        asked = posted_query(work.board, work.posted)
        if asked is None:
            self._propose_query(work)
            return
        if asked.query.proposer != work.seat.public:
            return
        self._carry_keys(work, asked)
        roster = roster_of(work.board, asked.query)
        if roster is None:
            self._propose_roster(work, asked.query)
        else:
            self._carry_deals(work, asked.query, roster)

    def _propose_query(self, work: Work) -> None:
        said, membership = consents_of(work.board, work.posted), work.seat.membership
        deadline = work.posted.question.deadline or 0
        if work.now > deadline:
            return
        asked = {m.name for m in membership.members if {SITE, KEEPER} & set(m.roles)}
        refused = {name for name, one in said.items() if not one.yes}
        keepers = {m.name for m in membership.having(KEEPER)} - refused
        everyone = asked <= set(said) and keepers <= set(keys_of(work.board, work.posted))
        if not everyone and work.now < (work.since + deadline) / 2:
            return
        yes = [m.name for m in sites_of(work.board) if m.name in said and m.name not in refused]
        try:
            query = proposed(work.board, work.posted, work.seat.public, yes)
        except FleetError:
            return  # too few agreed: `stage` says so for as long as it lasts
        work.publish(Kind.QUERY, PostedQuery(query).body)

    def _carry_keys(self, work: Work, asked: PostedQuery) -> None:
        """Carry Keys that their keepers have replaced: sites that come later do not find them any more."""
        listed, newest = listed_keys(work.board, work.posted), keys_of(work.board, work.posted)
        more = [post for name, post in listed.items() if newest.get(name) != post]
        if {post.header.hash for post in more} > {post.header.hash for post in asked.carried}:
            work.publish(Kind.QUERY, replace(asked, carried=tuple(more)).body)

    def _propose_roster(self, work: Work, query: SumQuery) -> None:
        deals = deals_of(work.board, query)
        there = {site for site, _ in deals.values()}
        late = len(there) >= query.numbers.smallest and work.now > query.deadline
        if late or len(there) == len(query.sites):
            work.publish(Kind.ROSTER, propose(query, bodies(query, deals)).body)

    def _carry_deals(self, work: Work, query: SumQuery, roster: SumRoster) -> None:
        """Carry the named deals of sites that posted several: keepers may hold another one."""
        deals = deals_of(work.board, query, carried(query, roster))
        sites = [site for site, _ in deals.values()]
        more = [
            CarriedDeal(site, post.header.data, post.salt + post.body)
            for site, hash in roster.deals
            if sites.count(site) > 1 and hash in deals
            for post in (deals[hash][1],)
        ]
        if {one.site for one in more} > {one.site for one in roster.carried}:
            work.publish(Kind.ROSTER, replace(roster, carried=tuple(more)).body)

    def carry(self, posted: Posted, last: int) -> Sequence[tuple[int, int]]:
        """A whole table."""
        del posted, last
        return [(0, FOREVER)]

    # ---- everyone

    def stage(self, board: Board, posted: Posted, now: int) -> str:
        """Whom the question waits for."""
        query = query_of(board, posted)
        if query is None:
            return _before_the_query(board, posted, now)
        closed = closed_by(board, posted)
        if refundable(query, closed):
            return f"{len(closed)} keepers closed it: it is never answered, and costs nothing; ask again"
        roster = roster_of(board, query)
        if roster is None:
            return _before_the_roster(board, query, now)
        return _before_the_sum(board, posted, query, roster)


def _before_the_query(board: Board, posted: Posted, now: int) -> str:
    deadline = posted.question.deadline
    if deadline is not None and now > deadline:
        return "its deadline was over before it could be asked of enough sites; ask again, with a later one"
    said, keys = consents_of(board, posted), keys_of(board, posted)
    waiting = [member.name for member in sites_of(board) if member.name not in said]
    if waiting:
        return f"waits for a yes or no of {', '.join(waiting)}"
    refused = {name for name, one in said.items() if not one.yes}
    keepers = [member.name for member in board.having(KEEPER)]
    waiting = [name for name in keepers if name not in refused and name not in keys]
    return f"waits for keys of {', '.join(waiting)}" if waiting else "waits for the asker's query"


def _before_the_roster(board: Board, query: SumQuery, now: int) -> str:
    there = {site for site, _ in deals_of(board, query).values()}
    waiting = [site for site, _ in query.sites if site not in there]
    least = query.numbers.smallest
    if now > query.deadline and len(there) < least:
        return f"{len(there)} of at least {least} sites were in at its deadline: there is no sum; ask again"
    if now > query.deadline or not waiting:
        return "waits for the asker's roster"
    return f"waits for {', '.join(waiting)}"


def _before_the_sum(board: Board, posted: Posted, query: SumQuery, roster: SumRoster) -> str:
    deals = bodies(query, deals_of(board, query, carried(query, roster)))
    try:
        if deals:
            check_roster(query, roster, {deal_hash(query, *item): item for item in deals})
        if found_sum(board, posted) is not None:
            return (
                ""
                if deals
                else "the sum is there; keepers and who asked have the Deals that it is of"
            )
    except FleetError as error:
        return str(error)
    answered, closed = answers_of(board, posted), closed_by(board, posted)
    waiting = [name for name in query.point if name not in answered and name not in closed]
    return (
        f"{len(answered)} of {enough(query)} answers; waits for {', '.join(waiting) or 'nobody'}"
        + said_wrong(accused(board, posted))
    )


def said_wrong(found: Accused | None) -> str:
    """What check words show, for people; empty if nothing."""
    if found is None:
        return ""
    names = [*(f"{name} dealt wrongly" for name in found.sites)]
    names += [f"{name} answered wrongly" for name in found.keepers]
    names += [
        f"{site} or {keeper} did wrong" for site, keeper in found.pairs if site not in found.sites
    ]
    names += [
        f"{site} or several keepers did wrong" for site in found.unclear if site not in found.sites
    ]
    return f"; answers do not fit together: {', '.join(names) or 'nobody can tell why'}"


def fits(query: SumQuery, answers: dict[str, bytes]) -> bool:
    """Whether the answers and their check words lie on polynomials."""
    try:
        found = total(query, answers)
    except FleetError:  # a sum that is not plausible was dealt well: words say nothing of it
        return True
    return found is not None and found.words_at_odds == ()


def over(work: Work) -> int:
    """After which no keeper answers any more."""
    return (work.posted.question.deadline or 0) + PATIENCE


def own_file(work: Work) -> Path:
    """Where this keeper has its key."""
    return key_file(work.folder, work.seat.fleet, work.posted.terms)


def kept_words(work: Work, query: SumQuery) -> dict[tuple[bytes, str, bytes], int]:
    """Check words of this query that were computed before (rule K8)."""
    rows = work.seat.file.rows(
        "select mark, data from words where fleet = ? and query = ? and mark != ?",
        work.seat.fleet, query.digest, b"",
    )  # fmt: skip
    return {
        (query.digest, bytes(mark[32:]).decode(), bytes(mark[:32])): int.from_bytes(data, "big")
        for mark, data in rows
    }


def keep_words(
    work: Work,
    query: SumQuery,
    roster: SumRoster,
    chosen: Sequence[tuple[str, bytes]],
    words: CheckWords,
) -> None:
    """Keep the words with the answer, within its transaction."""
    found = dict(chosen)
    db, place = work.seat.file.db, (work.seat.fleet, query.digest)
    db.execute("insert or replace into words values (?, ?, ?, ?)", (*place, b"", words.body))
    for (site, _), word in zip(roster.deals, words.words, strict=True):
        mark = found[site][:32] + site.encode()
        db.execute(
            "insert or ignore into words values (?, ?, ?, ?)",
            (*place, mark, word.to_bytes(8, "big")),
        )
