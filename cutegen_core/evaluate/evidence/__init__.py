"""What the verdict of a trial rests on, worded once for every reader.

1. `verdict.evidence` makes the record (`records.evidence`) of a trial from the sections of the modules below.
2. `failure`, `proof`, `cost`, `speed` and `profile` word one kind of facts each.
3. Writers show the record without new words: model feedback, slides, the HTML report, the pages, and `plain_text` for
   prompts and the terminal.
"""
