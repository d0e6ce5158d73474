-- The recall index, read from memory: what a process keeps of it must bear a name that never means anything else.

-- Numbers of pages are given once: what is on a page never changes, and what replaces it has another number.
CREATE TABLE numbered_pages (
    page_no  INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_no INTEGER NOT NULL REFERENCES scopes,
    level    INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    size     INTEGER NOT NULL,                      -- how many postings
    postings BLOB    NOT NULL
) STRICT;

INSERT INTO numbered_pages
    SELECT page_no, scope_no, level, first, length(postings) / 8, postings FROM recall_pages ORDER BY page_no;
DROP TABLE recall_pages;
ALTER TABLE numbered_pages RENAME TO recall_pages;
CREATE INDEX recall_pages_in_order ON recall_pages (scope_no, level, first, size);

-- Drawn at random whenever a page comes to a level or leaves it.
ALTER TABLE recall_levels ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
UPDATE recall_levels SET version = random();

-- Drawn at random whenever an entry leaves the scope: of one `state` there are only ever more entries.
ALTER TABLE recall_scopes ADD COLUMN state INTEGER NOT NULL DEFAULT 0;
UPDATE recall_scopes SET state = random();
