"""The papers' tables and figures again, each as one command: ``localrank papers run NAME --data DIR --out DIR``.

    study       what an experiment is, what it is given, and what it finds: tables, plots and sentences
    folds       the data: five partitions, or folds of train, validation and test
    fits        pieces of work whose results are kept on disk, addressed by what they are made of
    running     all experiments by name; a run from its plan to its files, and the log of every run on test folds
    paired      tables of paired comparisons

A paper is one module with its experiments. The next experiment is one `study.Experiment` there: it names the pieces of work
that it needs (`plan`) and makes tables, plots and sentences of their results (`find`). Nothing else is to be done: the command
prints the plan, runs what is missing, logs the run, and writes the files.
"""
