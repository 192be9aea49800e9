"""The papers' tables and figures again, each as one command: ``localrank papers run NAME --data DIR --out DIR``.

    role        what an experiment is, and what it is given
    folds       the data: five partitions, or folds of train, validation and test
    fits        pieces of work whose results are kept on disk, addressed by what they are made of
    findings    what an experiment finds: tables, plots and sentences
    writing     findings as CSV, JSON, SVG and one HTML page
    log         every run on test folds
    catalogue   all experiments by name

A paper is one module with its experiments. The next experiment is one `role.Experiment` there: it names the pieces of work
that it needs (`plan`) and makes tables, plots and sentences of their results (`find`). Nothing else is to be done: the command
prints the plan, runs what is missing, logs the run, and writes the files.
"""
