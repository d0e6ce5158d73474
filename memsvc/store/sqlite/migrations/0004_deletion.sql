-- Deletion in two steps: hidden at once, taken out in batches.

-- What is deleted for everybody and whose rows are still to be taken out: a thread of `scope_no`, or the whole of
-- `hidden_no`, a scope that lost its names to `scope_no`. Tombstones go to `scope_no`. Empty but for moments.
CREATE TABLE doomed (
    doomed_no INTEGER PRIMARY KEY,
    scope_no  INTEGER NOT NULL REFERENCES scopes,
    thread_no INTEGER UNIQUE REFERENCES threads,
    hidden_no INTEGER UNIQUE REFERENCES scopes,
    CHECK ((thread_no IS NULL) <> (hidden_no IS NULL))
) STRICT;

CREATE INDEX doomed_by_scope ON doomed (scope_no);

-- A scope's oldest run is what retention asks for.
CREATE INDEX runs_by_age ON runs (scope_no, created_us);
