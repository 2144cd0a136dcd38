// Arrays from Python, checked: the right type, the right number of dimensions, no gaps.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace lave {

namespace py = pybind11;

// A view of a C-contiguous array that stays alive and in place as long as this object does.
template <typename T>
class Array {
public:
    Array(const py::buffer& buffer, const char* name, std::vector<py::ssize_t> shape)
        : info_(buffer.request()) {
        const std::string& format = info_.format;
        constexpr bool is_float = std::is_floating_point_v<T>;
        const bool is_type =
            info_.itemsize == static_cast<py::ssize_t>(sizeof(T)) && format.size() == 1 &&
            (is_float          ? format == "f"
             : sizeof(T) == 1 ? format == "B" || format == "?"
                              : format == "i" || format == "l" || format == "q");
        if (!is_type) {
            throw py::type_error(std::string(name) + " must be an array of " +
                                 (is_float         ? "float32"
                                  : sizeof(T) == 1 ? "uint8"
                                  : sizeof(T) == 4 ? "int32"
                                                   : "int64"));
        }
        if (info_.ndim != static_cast<py::ssize_t>(shape.size())) {
            throw py::value_error(std::string(name) + " must have " +
                                  std::to_string(shape.size()) + " dimensions, not " +
                                  std::to_string(info_.ndim));
        }
        py::ssize_t stride = info_.itemsize;
        for (py::ssize_t axis = info_.ndim; axis-- > 0;) {
            if (shape[axis] >= 0 && info_.shape[axis] != shape[axis]) {
                throw py::value_error(std::string(name) + " has " +
                                      std::to_string(info_.shape[axis]) + " entries along axis " +
                                      std::to_string(axis) + ", and " +
                                      std::to_string(shape[axis]) + " are needed");
            }
            if (info_.shape[axis] > 1 && info_.strides[axis] != stride) {
                throw py::value_error(std::string(name) + " must be C-contiguous");
            }
            stride *= info_.shape[axis];
        }
    }

    const T* data() const { return static_cast<const T*>(info_.ptr); }
    std::size_t size() const { return static_cast<std::size_t>(info_.size); }
    std::size_t shape(std::size_t axis) const { return static_cast<std::size_t>(info_.shape[axis]); }

private:
    py::buffer_info info_;
};

constexpr py::ssize_t kAnyLength = -1;

}  // namespace lave
