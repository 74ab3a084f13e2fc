// What the files of the part for cards share: functions return 0, or -1 after an exception, whose text
// `tandem_card_error` tells.

#pragma once

#include <exception>
#include <string>

extern thread_local std::string card_message;

template <typename Body>
int guarded(Body body) {
    try {
        body();
        return 0;
    } catch (const std::exception& error) {
        card_message = error.what();
        return -1;
    }
}
