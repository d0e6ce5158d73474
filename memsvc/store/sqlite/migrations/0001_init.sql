-- Scopes, threads, runs, rolling summaries, memory's own calls, notices.
--
-- Times are microseconds since the Unix epoch, UTC. Integer keys (*_no) never leave the store.
-- An applied migration is never edited: its hash is kept in `migrations` and checked at every start.

-- The database's secret: tags, thread ids and tombstones are keyed with it. Made once, never shown.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE scopes (
    scope_no  INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    agent_id  TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    UNIQUE (tenant_id, agent_id, user_id)
) STRICT;

CREATE TABLE threads (
    thread_no         INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_no          INTEGER NOT NULL REFERENCES scopes,
    thread_id         TEXT    NOT NULL UNIQUE,
    thread_key        TEXT    NOT NULL DEFAULT '',
    title             TEXT    NOT NULL,
    title_named       INTEGER NOT NULL DEFAULT 0,   -- 1 after a person renamed it
    state             INTEGER NOT NULL DEFAULT 1,
    locale            TEXT    NOT NULL,             -- 'zh' or 'en', by the script of the first input
    run_count         INTEGER NOT NULL DEFAULT 0,
    last_sequence     INTEGER NOT NULL DEFAULT 0,   -- orders lists: the latest recorded run
    created_us        INTEGER NOT NULL,
    updated_us        INTEGER NOT NULL,
    -- Folding. Raised by every fold and every deletion in the thread; a fold commits only on the revision it read.
    revision          INTEGER NOT NULL DEFAULT 0,
    summary           TEXT    NOT NULL DEFAULT '',
    summary_providers TEXT    NOT NULL DEFAULT '[]', -- whose runs the summary was made from, as a JSON array
    folded_upto       INTEGER NOT NULL DEFAULT 0,    -- the cursor: the sequence up to which runs are in the summary
    folded_count      INTEGER NOT NULL DEFAULT 0,
    -- A run too long for one model call is folded in pieces; the draft holds the pieces done, unseen until the last.
    draft             TEXT    NOT NULL DEFAULT '',
    draft_offset      INTEGER NOT NULL DEFAULT 0     -- characters of the rendered run that the draft covers
) STRICT;

CREATE INDEX threads_by_activity ON threads (scope_no, last_sequence DESC);
-- What is due is few among many; 2 is RECENT_RUNS in model.py, and the queries say the same words.
CREATE INDEX threads_due ON threads (scope_no) WHERE run_count - folded_count > 2;
CREATE UNIQUE INDEX threads_by_key ON threads (scope_no, thread_key) WHERE thread_key <> '';

CREATE TABLE runs (
    sequence            INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_no            INTEGER NOT NULL REFERENCES scopes,
    thread_no           INTEGER NOT NULL REFERENCES threads,
    run_id              TEXT    NOT NULL,
    outcome             INTEGER NOT NULL,
    served_by           TEXT    NOT NULL,            -- `provider`, or that of the thread's run before it
    provider            TEXT    NOT NULL,
    model               TEXT    NOT NULL,
    input_tokens        INTEGER NOT NULL,
    output_tokens       INTEGER NOT NULL,
    cost_micros         INTEGER NOT NULL,
    context_token_count INTEGER NOT NULL,
    labels              TEXT    NOT NULL,            -- a JSON object
    created_us          INTEGER NOT NULL,
    ended_us            INTEGER NOT NULL,
    own_offset          INTEGER NOT NULL DEFAULT 0,  -- characters of a context block of ours that `input` begins with
    -- How the context block shows the run: derived, and made anew where `renderer` is not the running one's.
    renderer            INTEGER NOT NULL,
    whole               INTEGER NOT NULL,            -- 1: the input is shown as it is, 2: the output is, 3: both
    shown               TEXT    NOT NULL,            -- JSON, see rules/shown.py
    input               TEXT    NOT NULL,
    output              TEXT    NOT NULL,
    UNIQUE (scope_no, run_id)
) STRICT;

CREATE INDEX runs_by_thread ON runs (thread_no, sequence);

-- Earlier summaries, so that deleting a run falls back instead of starting over. Sparser the older.
CREATE TABLE checkpoints (
    thread_no         INTEGER NOT NULL REFERENCES threads,
    folded_upto       INTEGER NOT NULL,
    folded_count      INTEGER NOT NULL,
    summary           TEXT    NOT NULL,
    summary_providers TEXT    NOT NULL,
    PRIMARY KEY (thread_no, folded_upto)
) STRICT, WITHOUT ROWID;

-- What was deleted, as keyed hashes of ids: a late RecordRun is refused, and no word is kept.
-- For kind 'key' (a thread_key), `count` is how many threads of that key were deleted.
CREATE TABLE tombstones (
    scope_no INTEGER NOT NULL REFERENCES scopes,
    kind     TEXT    NOT NULL,                       -- 'thread' | 'run' | 'key'
    digest   BLOB    NOT NULL,
    count    INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (scope_no, kind, digest)
) STRICT, WITHOUT ROWID;

-- What deleted runs had cost: sums outlive words. No id, one row a run.
CREATE TABLE deleted_usage (
    scope_no      INTEGER NOT NULL REFERENCES scopes,
    created_us    INTEGER NOT NULL,
    provider      TEXT    NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_micros   INTEGER NOT NULL
) STRICT;

CREATE INDEX deleted_usage_by_scope ON deleted_usage (scope_no, created_us);

-- One row a model call that memory made for itself. `thread_no` is NULL once the thread is deleted.
CREATE TABLE memory_ops (
    op_no         INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_no      INTEGER NOT NULL REFERENCES scopes,
    thread_no     INTEGER REFERENCES threads,
    kind          INTEGER NOT NULL,
    provider      TEXT    NOT NULL,
    model         TEXT    NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_micros   INTEGER NOT NULL,
    error_reason  TEXT    NOT NULL,
    created_us    INTEGER NOT NULL,
    duration_ms   INTEGER NOT NULL
) STRICT;

CREATE INDEX memory_ops_by_scope ON memory_ops (scope_no, op_no);
CREATE INDEX memory_ops_by_thread ON memory_ops (thread_no, op_no);
CREATE INDEX memory_ops_by_time ON memory_ops (created_us);

CREATE TABLE notices (
    notice_no       INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_no        INTEGER NOT NULL REFERENCES scopes,
    kind            INTEGER NOT NULL,
    from_provider   TEXT    NOT NULL,
    to_provider     TEXT    NOT NULL,
    occasion        TEXT    NOT NULL,                -- what may raise it again: a day for allowances, else empty
    text            TEXT    NOT NULL,
    created_us      INTEGER NOT NULL,
    acknowledged_us INTEGER,
    UNIQUE (scope_no, kind, from_provider, to_provider, occasion)
) STRICT;
