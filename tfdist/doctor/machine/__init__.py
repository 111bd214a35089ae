"""Facts about this machine, and the checks of them.

    machine_facts, tensorflow_facts, package_versions    ask the driver, the kernel, TensorFlow and pip
    kernel_speeds                                        measures the kernels of the CPU, and judges the choice of them
    machine_checks                                       judges what was found, and asks nothing itself
"""
