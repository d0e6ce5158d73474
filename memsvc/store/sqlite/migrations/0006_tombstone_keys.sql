-- Tombstones that can be known again elsewhere: an export takes them along with the key of its scope.

-- What the tombstones of a scope are keyed with; the first is the one that new ones get. The others came with imports,
-- from other databases. Tombstones from before this migration are keyed with the database's secret, which never leaves it.
CREATE TABLE tombstone_keys (
    scope_no INTEGER NOT NULL REFERENCES scopes,
    key_no   INTEGER NOT NULL,
    key      BLOB    NOT NULL,
    PRIMARY KEY (scope_no, key_no),
    UNIQUE (scope_no, key)
) STRICT, WITHOUT ROWID;
