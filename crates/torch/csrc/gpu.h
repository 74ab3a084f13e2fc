// Shared by the files of the GPU library: functions return 0, or -1 after an exception, whose text
// `tandem_gpu_error` returns.

#pragma once

#include <exception>
#include <string>

extern thread_local std::string gpu_message;

template <typename Body>
int guarded(Body body) {
    try {
        body();
        return 0;
    } catch (const std::exception& error) {
        gpu_message = error.what();
        return -1;
    }
}
