"""Several programs that do the same work, in rounds, and what comes of it.

    common_options      options of all comparisons
    contestants         who takes part: for each, the processes that it starts
    torch_python        the interpreter that has PyTorch
    host_facts          processor, versions, kernels: what a figure depends on
    other_work          how much of the machine others took meanwhile
    core_distance       how fast a core hands memory to another
    rounds              each contestant once a round, in alternating order
    turns               the same with jobs that start once and then work in turn
    process_group       starts processes and bounds them
    process_ending      ends a process with all that it has started
    spread              medians with their range, and ratios round by round
    training_report     tables and picture of contestants that trained
    failure_section     what a page says of those that failed
    markdown_table      tables
    bar_chart           a picture, as SVG
    result_folder       where the table, the picture and the figures as JSON are written
"""
