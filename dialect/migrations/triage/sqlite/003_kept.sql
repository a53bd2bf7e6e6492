-- The state of a message when it is not in its failed queue any more, and the number of the run that is returning it, or 0.
ALTER TABLE {triage_kept} ADD COLUMN state INTEGER NOT NULL DEFAULT 1;
ALTER TABLE {triage_kept} ADD COLUMN run INTEGER NOT NULL DEFAULT 0;
