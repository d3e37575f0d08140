"""The secure sum: a trusted server's accuracy without a server, in one post a site.

    site       deal(query, site, vector, seed)             -> body of its only post
    proposer   propose(query, deals)                       -> roster F
    keeper     answer(query, keeper, secret, roster, deals) -> body of its only answer, check words
    anyone     total(query, answers) -> sum                blame(query, roster, answers, words)

Everything here is a pure function of bytes: no board, store, clock or database. Rules, each in one place

    K1  check_signed, check_keys (query)     K5  valid_deal (deal), good_key (query)
    K2  SumNumbers.threshold (numbers)       K6  pad (deal)
    K3  hedge (deal)                         K8  summed, check_words (answer)
    K4  check_roster (roster)                K9  refundable (close)

What lasts, one Deal (K3), one Answer and its claim (K4, K7), is `Releases` of the board (`fleet.release`).

Promise. The value of a site stays hidden in the sum unless more than c of the k keepers pool what only they
can read, or more than c' sites pool their values; everyone else sees who took part, random numbers and at
most one noisy sum a query. `docs/secure-sum-proof.md` states and proves it.
"""
