// Strongly connected components (Tarjan 1972), without recursion.
#pragma once

#include <cstdint>
#include <vector>

namespace lave {

// Kept between calls so that its vectors need not be allocated again.
class Components {
public:
    // `depends_on[v]` lists the vertices that v depends on. Afterwards the components stand one
    // behind the other in `members`, dependencies first; component i ends before `ends[i]`.
    void find(const std::vector<std::vector<std::int32_t>>& depends_on, std::size_t count);

    std::vector<std::int32_t> members;
    std::vector<std::size_t> ends;

private:
    struct Visit {
        std::int32_t vertex;
        std::size_t next_successor;
    };
    std::vector<std::int32_t> index_, low_, stack_;
    std::vector<char> on_stack_;
    std::vector<Visit> path_;
};

}  // namespace lave
