#include "threads.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

namespace lave {

namespace {

// Most steps walk known states and are over before a thread would have begun.
constexpr std::chrono::microseconds kWorthThreads{300};

}  // namespace

void for_each_automaton(const std::vector<Automaton*>& automaton_of_row, unsigned threads,
                        const std::function<void(const std::vector<std::size_t>& rows)>& work) {
    std::vector<std::vector<std::size_t>> groups;
    std::map<const Automaton*, std::size_t> group_of;
    for (std::size_t row = 0; row < automaton_of_row.size(); ++row) {
        const auto [place, is_new] = group_of.emplace(automaton_of_row[row], groups.size());
        if (is_new) groups.emplace_back();
        groups[place->second].push_back(row);
    }
    // The largest first, so that no thread begins with it when the others are done.
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });

    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> errors(groups.size());
    auto take_group = [&] {
        const std::size_t at = next.fetch_add(1);
        if (at >= groups.size()) return false;
        try {
            const std::lock_guard<std::mutex> lock(automaton_of_row[groups[at][0]]->mutex);
            work(groups[at]);
        } catch (...) {
            errors[at] = std::current_exception();
        }
        return true;
    };
    const std::size_t workers = std::min<std::size_t>(threads, groups.size());
    std::vector<std::thread> others;
    const auto begin = std::chrono::steady_clock::now();
    while (take_group()) {
        if (!others.empty() || next.load() >= groups.size()) continue;
        if (std::chrono::steady_clock::now() - begin < kWorthThreads) continue;
        try {
            for (std::size_t worker = 1; worker < workers; ++worker) {
                others.emplace_back([&] {
                    while (take_group()) continue;
                });
            }
        } catch (const std::system_error&) {
            // No thread to be had: the ones that there are do all the work.
        }
    }
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& error : errors) {
        if (error) std::rethrow_exception(error);
    }
}

}  // namespace lave
