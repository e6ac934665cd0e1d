# How HiGHS is compiled into lacuna-planner and lacuna (libs/milp): many sources at a time, since its
# headers cost more than its code, and without its tests.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "")
set(BUILD_TESTING OFF CACHE BOOL "")
