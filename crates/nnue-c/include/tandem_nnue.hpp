// NNUE networks for chess, evaluated from C++: RAII handles, and exceptions instead of status codes.
#ifndef TANDEM_NNUE_HPP
#define TANDEM_NNUE_HPP

#include "tandem_nnue.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace tandem {

/// A call that failed, with its status and message.
class Error : public std::runtime_error {
  public:
    explicit Error(TandemStatus status) : std::runtime_error(tandem_last_error()), status_(status) {}

    TandemStatus status() const noexcept { return status_; }

  private:
    TandemStatus status_;
};

namespace detail {

inline void check(TandemStatus status) {
    if (status != TANDEM_STATUS_OK) {
        throw Error(status);
    }
}

struct FreeNetwork {
    void operator()(TandemNetwork *network) const noexcept { tandem_network_free(network); }
};

struct FreeBoard {
    void operator()(TandemBoard *board) const noexcept { tandem_board_free(board); }
};

}  // namespace detail

/// A loaded network. Several threads may use it at a time.
class Network {
  public:
    explicit Network(const std::string &path) {
        TandemNetwork *handle = nullptr;
        detail::check(tandem_network_load(path.c_str(), &handle));
        handle_.reset(handle);
    }

    /// Evaluates a position from scratch, in centipawns for the side to move.
    std::int32_t evaluate(const std::string &fen) const {
        std::int32_t centipawns = 0;
        detail::check(tandem_evaluate_fen(handle_.get(), fen.c_str(), &centipawns));
        return centipawns;
    }

    const TandemNetwork *handle() const noexcept { return handle_.get(); }

  private:
    std::unique_ptr<TandemNetwork, detail::FreeNetwork> handle_;
};

/// A position whose accumulators are updated with its moves. It may outlive its network.
class Board {
  public:
    Board(const Network &network, const std::string &fen) {
        TandemBoard *handle = nullptr;
        detail::check(tandem_board_new(network.handle(), fen.c_str(), &handle));
        handle_.reset(handle);
    }

    /// Plays a move in UCI notation; throws if it is not legal.
    void push(const std::string &move) { detail::check(tandem_board_push(handle_.get(), move.c_str())); }

    /// Plays a move if it is legal; returns false and leaves the board unchanged otherwise.
    bool try_push(const std::string &move) {
        const auto status = tandem_board_push(handle_.get(), move.c_str());
        if (status == TANDEM_STATUS_BAD_MOVE) {
            return false;
        }
        detail::check(status);
        return true;
    }

    /// Plays a null move; throws if the side to move is in check.
    void push_null() { detail::check(tandem_board_push_null(handle_.get())); }

    /// Sets up another position and forgets the moves before.
    void set(const std::string &fen) { detail::check(tandem_board_set(handle_.get(), fen.c_str())); }

    /// Takes back the last move or null move; throws if there is none.
    void pop() { detail::check(tandem_board_pop(handle_.get())); }

    /// Evaluates the current position, in centipawns for the side to move.
    std::int32_t evaluate() {
        std::int32_t centipawns = 0;
        detail::check(tandem_board_evaluate(handle_.get(), &centipawns));
        return centipawns;
    }

  private:
    std::unique_ptr<TandemBoard, detail::FreeBoard> handle_;
};

}  // namespace tandem

#endif
