// Finds the elements of CuTe's tuples faster; included before the rest of CuTe.
//
// CuTe asks libcu++ for the element of a std::tuple with the same types, which NVRTC answers by a chain of templates
// for each new list of types. A tensor-core kernel has thousands: half of what its front end does.
#pragma once

#include <cute/container/tuple.hpp>

namespace CUTE_STL_NAMESPACE {

template <class T0, class... T>
struct tuple_element<0, cute::tuple<T0, T...>> {
  using type = T0;
};

template <class T0, class T1, class... T>
struct tuple_element<1, cute::tuple<T0, T1, T...>> {
  using type = T1;
};

template <class T0, class T1, class T2, class... T>
struct tuple_element<2, cute::tuple<T0, T1, T2, T...>> {
  using type = T2;
};

template <class T0, class T1, class T2, class T3, class... T>
struct tuple_element<3, cute::tuple<T0, T1, T2, T3, T...>> {
  using type = T3;
};

}  // namespace CUTE_STL_NAMESPACE
