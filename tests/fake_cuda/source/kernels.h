// What driver.cpp and graphs.cpp share of kernels.
#pragma once
#include "queue.h"

struct Function {
    std::string name;
    void (*launch)(const unsigned* sizes, size_t shared, void** arguments);
    std::vector<size_t> sizes;  // of its arguments, in bytes
};
// Make work of a launch. Returns the driver's error.
int kernel_work(Function* function, const unsigned* sizes, unsigned shared, void** arguments, Work& work);
