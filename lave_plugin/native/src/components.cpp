#include "components.hpp"

#include <algorithm>

namespace lave {

void Components::find(const std::vector<std::vector<std::int32_t>>& depends_on,
                      std::size_t count) {
    members.clear();
    ends.clear();
    stack_.clear();
    path_.clear();
    index_.assign(count, -1);
    low_.assign(count, 0);
    on_stack_.assign(count, 0);
    std::int32_t visited = 0;
    auto enter = [&](std::int32_t vertex) {
        index_[vertex] = low_[vertex] = visited++;
        stack_.push_back(vertex);
        on_stack_[vertex] = 1;
        path_.push_back({vertex, 0});
    };
    for (std::size_t root = 0; root < count; ++root) {
        if (index_[root] >= 0) continue;
        enter(static_cast<std::int32_t>(root));
        while (!path_.empty()) {
            const std::int32_t vertex = path_.back().vertex;
            const auto& successors = depends_on[vertex];
            if (path_.back().next_successor < successors.size()) {
                const std::int32_t successor = successors[path_.back().next_successor++];
                if (index_[successor] < 0) {
                    enter(successor);
                } else if (on_stack_[successor]) {
                    low_[vertex] = std::min(low_[vertex], index_[successor]);
                }
                continue;
            }
            path_.pop_back();
            if (!path_.empty()) {
                std::int32_t& caller = low_[path_.back().vertex];
                caller = std::min(caller, low_[vertex]);
            }
            if (low_[vertex] != index_[vertex]) continue;
            std::int32_t member;
            do {
                member = stack_.back();
                stack_.pop_back();
                on_stack_[member] = 0;
                members.push_back(member);
            } while (member != vertex);
            ends.push_back(members.size());
        }
    }
}

}  // namespace lave
