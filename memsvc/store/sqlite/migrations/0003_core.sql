-- Core: facts of the user that a person confirmed, what models propose, and who changed what.

-- The cursor of extraction: the sequence up to which runs have been looked at.
ALTER TABLE threads ADD COLUMN extracted_upto INTEGER NOT NULL DEFAULT 0;
CREATE INDEX threads_unread ON threads (scope_no) WHERE last_sequence > extracted_upto;

-- `fact_no` is the order of confirmation, whatever the clock did.
CREATE TABLE facts (
    fact_no      INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_no     INTEGER NOT NULL REFERENCES scopes,
    fact_id      TEXT    NOT NULL,
    wording      TEXT    NOT NULL,                   -- what equal texts have in common, see rules/facts.py
    text         TEXT    NOT NULL,
    served_by    TEXT    NOT NULL,                   -- whose runs it was drawn from, a JSON array; empty: a person wrote it
    confirmed_by TEXT    NOT NULL,
    created_us   INTEGER NOT NULL,
    last_used_us INTEGER NOT NULL,
    UNIQUE (scope_no, fact_id),
    UNIQUE (scope_no, wording)
) STRICT;

CREATE TABLE fact_sources (
    fact_no  INTEGER NOT NULL REFERENCES facts,
    sequence INTEGER NOT NULL REFERENCES runs,
    PRIMARY KEY (fact_no, sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX fact_sources_by_run ON fact_sources (sequence);

-- Which fact a candidate became, so that confirming it again finds it.
CREATE TABLE fact_candidates (
    scope_no     INTEGER NOT NULL REFERENCES scopes,
    candidate_id TEXT    NOT NULL,
    fact_no      INTEGER NOT NULL REFERENCES facts,
    PRIMARY KEY (scope_no, candidate_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX fact_candidates_by_fact ON fact_candidates (fact_no);

CREATE TABLE candidates (
    candidate_no INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_no     INTEGER NOT NULL REFERENCES scopes,
    candidate_id TEXT    NOT NULL,
    wording      TEXT    NOT NULL,
    text         TEXT    NOT NULL,
    doubt        INTEGER NOT NULL,                   -- millionths by which the confidence misses 1
    supersedes   TEXT    NOT NULL,                   -- the id of the fact that it contradicts, or empty
    served_by    TEXT    NOT NULL,
    created_us   INTEGER NOT NULL,
    UNIQUE (scope_no, candidate_id),
    UNIQUE (scope_no, wording)
) STRICT;

CREATE INDEX candidates_in_order ON candidates (scope_no, doubt, candidate_no);

CREATE TABLE candidate_sources (
    candidate_no INTEGER NOT NULL REFERENCES candidates,
    sequence     INTEGER NOT NULL REFERENCES runs,
    PRIMARY KEY (candidate_no, sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX candidate_sources_by_run ON candidate_sources (sequence);

-- Every change that a person, or the capacity, made to what is known. The words of a fact that was deleted, and those of
-- candidates, are not in it.
CREATE TABLE core_log (
    entry_no    INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_no    INTEGER NOT NULL REFERENCES scopes,
    created_us  INTEGER NOT NULL,
    actor       TEXT    NOT NULL,
    change      TEXT    NOT NULL,
    item_id     TEXT    NOT NULL,                    -- of a fact, or of the candidate that was rejected
    text_before TEXT    NOT NULL,
    text_after  TEXT    NOT NULL
) STRICT;

CREATE INDEX core_log_by_scope ON core_log (scope_no, entry_no);
