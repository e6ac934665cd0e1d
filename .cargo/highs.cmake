# How HiGHS is compiled into lacuna-planner and lacuna (libs/milp): many sources at a time, since its
# headers cost more than its code, and neither its tests nor the library that it loads at run time.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "")
set(BUILD_TESTING OFF CACHE BOOL "")
set(BUILD_SHARED_EXTRAS_LIB OFF CACHE BOOL "")
