-- Recall: which terms which run of a scope has, for reading by term and for taking out again by run.
--
-- A posting is one integer: 34 bits for the term (two characters, or a hash), 23 bits of the entry's number in its scope,
-- 6 bits of gain (how much the term weighs in the entry). In order, all entries of a term stand together, and so do all
-- pairs that begin with one character.

CREATE TABLE recall_scopes (
    scope_no INTEGER PRIMARY KEY REFERENCES scopes,
    entries  INTEGER NOT NULL,                      -- how many there are; the row goes with the last one
    paged_no INTEGER NOT NULL,                      -- up to this entry_no the postings are on pages
    waiting  INTEGER NOT NULL                       -- how many postings the entries behind it have
) STRICT;

-- One row a completed run.
CREATE TABLE recall_entries (
    scope_no  INTEGER NOT NULL REFERENCES scopes,
    entry_no  INTEGER NOT NULL,
    sequence  INTEGER NOT NULL UNIQUE,
    thread_no INTEGER NOT NULL,
    postings  BLOB    NOT NULL,                     -- the entry's own in order, eight bytes each
    PRIMARY KEY (scope_no, entry_no)
) STRICT;

CREATE INDEX recall_entries_by_thread ON recall_entries (thread_no, entry_no);

-- The postings of the latest entries wait in their entries; those of all others stand on pages, each on exactly one. They
-- enter at level 1 some thousands at a time, and a level that is full sinks into the next, eight times its size: a
-- run that touched a page for each of its terms would write megabytes.
CREATE TABLE recall_levels (
    scope_no INTEGER NOT NULL REFERENCES scopes,
    level    INTEGER NOT NULL,
    size     INTEGER NOT NULL,                      -- postings on its pages
    sinking  INTEGER,                               -- the posting from which on it is still to sink; NULL while it is not
    PRIMARY KEY (scope_no, level)
) STRICT, WITHOUT ROWID;

-- A page holds the postings of its level from its `first` up to the `first` of the next page.
CREATE TABLE recall_pages (
    page_no  INTEGER PRIMARY KEY,
    scope_no INTEGER NOT NULL REFERENCES scopes,
    level    INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    postings BLOB    NOT NULL
) STRICT;

CREATE INDEX recall_pages_in_order ON recall_pages (scope_no, level, first);
