"""Facts about this machine, and the checks of them.

    nvidia_smi, machine_facts, tensorflow_facts, package_versions    ask the driver, the kernel, TensorFlow and pip
    kernel_speeds                                                    measures the kernels of the CPU
    machine_checks, tensorflow_checks, environment_checks, kernel_checks    judge what was found
    known_bad_versions                                               combinations of packages that do not work

The checks take facts and ask nothing themselves.
"""
