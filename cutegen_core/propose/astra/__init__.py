"""The Astra strategy: testing, profiling, planning and coding roles make an existing kernel faster.

1. `strategy` is the flow: which role is asked next, and what its answer comes to. `single` is its twin with one role.
2. `prompting` asks the roles; `figures` has the numbers per shape that their prompts show.
3. `playbook_answers` answers for a role that the playbook plays; `faults` says what is wrong with an answer.
"""
