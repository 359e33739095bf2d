"""Inputs of `hard.json`: edges of every event's parameters. Syntax: `make.expand`."""

RENYI = """
gaussian sigma=1e6 sensitivity=1 order=1,1.000001,7.3
gaussian sigma=1e12 sensitivity=2 order=1.5
gaussian sigma=0.2 sensitivity=1.4142135623730951 order=1,300.5,1e4
gaussian sigma=100 sensitivity=0.003 order=2.5,1e6
gaussian sigma=1.1 sensitivity=1 order=1.001,1e6

laplace scale=1e8 sensitivity=1 coordinates=1 order=1,1.000001,1e6,inf
laplace scale=1e12 sensitivity=1 coordinates=1 order=2
laplace scale=0.02 sensitivity=1 coordinates=1 order=1,1.001,2.5,1e6,inf
laplace scale=20 sensitivity=1 coordinates=20 order=1,1.5,24,300.5
laplace scale=0.5 sensitivity=3 coordinates=7 order=1.000001,2,1e5
laplace scale=4000 sensitivity=1 coordinates=1000 order=7.3,1e4

randomized_response epsilon=1e-9 bits=1 order=1,2
randomized_response epsilon=1e-6 bits=5 order=1.000001,1e6,inf
randomized_response epsilon=0.1 bits=64 order=1,1.001,24,1e5
randomized_response epsilon=20 bits=1 order=1.001,1.5,300.5
randomized_response epsilon=50 bits=3 order=1,1.000001,1e6

pure_dp epsilon=1e-9 order=1,2.5,1e6,inf
pure_dp epsilon=0.3 order=1.000001,24
pure_dp epsilon=50 order=1,1.001,2,1e5

screening sigma=0.2 threshold=10 lowest=0 highest=18 order=1,1.000001,2,300.5,inf
screening sigma=0.2 threshold=28 lowest=0 highest=20 order=1e4,inf
screening sigma=1e6 threshold=210 lowest=0 highest=300 order=1,1.001,1e6,inf
screening sigma=1e6 threshold=40000300 lowest=290 highest=300 order=inf
screening sigma=5 threshold=500 lowest=0 highest=300 order=300.5,1e4,1e6,inf
screening sigma=5 threshold=0 lowest=200 highest=300 order=300.5,1e5,inf
screening sigma=85 threshold=210 lowest=30 highest=300 order=1,1.000001,2,300.5,1e4,1e6,inf
screening sigma=2 threshold=8 lowest=0 highest=16 order=1.5,7.3,24
screening sigma=40 threshold=480 lowest=0 highest=800 order=2.5,1e5

poisson_screening sigma=85 threshold=210 lowest=0 highest=300 rate=1e-10,1e-6,0.999 order=2.5,300.5
poisson_screening sigma=85 threshold=210 lowest=0 highest=300 rate=0.25 order=1,1.000001,1e4,1e6,inf
poisson_screening sigma=0.2 threshold=10 lowest=0 highest=18 rate=1e-10,1e-3 order=1,2,24
poisson_screening sigma=0.2 threshold=10 lowest=0 highest=18 rate=0.999 order=1.001,1e5,inf
poisson_screening sigma=5 threshold=500 lowest=0 highest=300 rate=1e-3 order=1e4,1e6,inf
poisson_screening sigma=5 threshold=0 lowest=200 highest=300 rate=0.25 order=300.5,inf
poisson_screening sigma=1e6 threshold=210 lowest=0 highest=300 rate=1e-3 order=1,24,1e6,inf
poisson_screening sigma=1 threshold=6 lowest=0 highest=12 rate=1e-6 order=1.5,300.5

poisson_gaussian sigma=0.05 rate=1e-10 order=1,1.000001,1.001
poisson_gaussian sigma=0.05 rate=0.25 order=1,1.5,300.5
poisson_gaussian sigma=0.05 rate=0.999 order=1.001,7.3
poisson_gaussian sigma=0.3 rate=1e-6 order=1,1.5,2,24
poisson_gaussian sigma=0.8 rate=0.01 order=1,1.000001,1.001,2.5,7.3,300.5,1e5,1e6
poisson_gaussian sigma=0.8 rate=1e-10 order=2,7.3,24,1e4
poisson_gaussian sigma=2 rate=0.999 order=1,1.000001,2.5,1e4
poisson_gaussian sigma=5 rate=1e-3 order=1,1.5,24,300.5,1e4,1e6
poisson_gaussian sigma=5 rate=1e-3 order=340,360,380.5
poisson_gaussian sigma=60 rate=0.03 sensitivity=1.4142135623730951 order=1,1.000001,24,300.5,1e5
poisson_gaussian sigma=0.9 rate=0.25 sensitivity=1.4142135623730951 order=1,1.001,2,1e5
poisson_gaussian sigma=1e4 rate=1e-6 order=24,1e5
poisson_gaussian sigma=1e4 rate=0.25 order=1,1.000001,7.3,1e6
poisson_gaussian sigma=1e3 rate=1e-10 order=1e6

poisson_laplace_exact scale=1 coordinates=1 rate=0.25 order=1,1.000001,2.5,24,1e4,inf
poisson_laplace_exact scale=0.05 coordinates=1 rate=1e-6 order=1,1.5,7.3,1e5
poisson_laplace_exact scale=0.05 coordinates=1 rate=0.999 order=1,1.001,24,inf
poisson_laplace_exact scale=10 coordinates=1 rate=1e-10 order=1,2,300.5,1e6,inf
poisson_laplace_exact scale=200 coordinates=1 rate=1e-3 order=1.000001,1.5,1e5
poisson_laplace_exact scale=1e6 coordinates=1 rate=0.25 order=1,300.5,1e6

poisson_randomized_response epsilon=1 bits=1 rate=0.25 order=1,1.000001,7.3,1e4,inf
poisson_randomized_response epsilon=8 bits=5 rate=1e-6 order=1,1.5,24,1e6
poisson_randomized_response epsilon=0.05 bits=64 rate=1e-3 order=1,2.5,300.5,inf
poisson_randomized_response epsilon=1e-6 bits=2 rate=0.999 order=1.001,1e5

poisson_zcdp_generic rho=0.5 rate=0.01 order=2,24,1000
poisson_zcdp_generic rho=1e-8 rate=1e-6 order=3,10000
poisson_zcdp_generic rho=50 rate=1e-10 order=2,300
poisson_zcdp_generic rho=0.02 rate=0.999 order=7,10000

collision epsilon=1e-6 nonzeros=2 buckets=8 order=1,2.5,1e6,inf
collision epsilon=1 nonzeros=6 buckets=27 order=1,1.000001,7.3,300.5,inf
collision epsilon=4 nonzeros=3 buckets=4 order=1,1.5,1e5
collision epsilon=0.4 nonzeros=5 buckets=6 order=2,24,inf
collision epsilon=20 nonzeros=1 buckets=1000 order=1,1.001,24
collision epsilon=0.01 nonzeros=4 buckets=2000 order=1.5

gnmax_data_dependent sigma=40 votes=200;40;10;0;0;0;0;0;0;0 order=1,1.000001,10,24.5
gnmax_data_dependent sigma=40 votes=90;80;30;20;20;10;0;0;0;0 order=2.5
gnmax_data_dependent sigma=100 votes=990;5;5;0;0 order=1.5,24,200.5,300.5
gnmax_data_dependent sigma=4 votes=60;10;5 order=2,7.3,1e4
gnmax_data_dependent sigma=200 votes=900;50;50;0;0;0;0;0;0;0 order=7.3

lnmax_data_dependent scale=20 votes=200;40;10;0;0;0;0;0;0;0 order=1,1.001,10,300.5,inf
lnmax_data_dependent scale=20 votes=90;85;30;20;20;5;0;0;0;0 order=2.5
lnmax_data_dependent scale=5 votes=250;0;0;0;0;0;0;0;0;0 order=1,7.3,24,1e5
lnmax_data_dependent scale=0.5 votes=30;20;10 order=2,1e4

screening_data_dependent sigma=85 threshold=210 count=40 order=1,7,300.5,inf
screening_data_dependent sigma=85 threshold=210 count=290 order=1.000001,24
screening_data_dependent sigma=5 threshold=60 count=20 order=1,1.5,1e4
screening_data_dependent sigma=5 threshold=60 count=1 order=300.5
screening_data_dependent sigma=1e4 threshold=180 count=180 order=2.5,1e6

exponential_mechanism epsilon=1e-9 order=1.5,1e6,inf
exponential_mechanism epsilon=0.3 order=1.000001,2,24,1e5
exponential_mechanism epsilon=40 order=1.001,7.3,300.5
poisson_exponential_mechanism epsilon=1 rate=0.01 order=1.5,24,1e4
poisson_exponential_mechanism epsilon=12 rate=0.9 order=1.001,2,300.5
kary_response epsilon=1e-6 categories=5 order=1,2.5,1e6
kary_response epsilon=3 categories=100 order=1,1.000001,24,inf
poisson_gaussian_group sigma=1 rate=0.01 size=3 order=1,1.5,7.3
poisson_gaussian_group sigma=4 rate=0.2 size=10 order=1,2.5,12
"""

PROFILE = """
gaussian sigma=1e6 sensitivity=1 epsilon=-1,-1e-6,0,1e-6,3.6e-5
gaussian sigma=1000 sensitivity=1 epsilon=-0.03,0,0.001,0.036
gaussian sigma=1 sensitivity=1 epsilon=-40,-1,0,1,10,36.5
gaussian sigma=0.02 sensitivity=1 epsilon=-100,0,1250,3000

laplace scale=1 sensitivity=1 coordinates=1 epsilon=-2,-0.5,0,0.999999,1.5
laplace scale=1e4 sensitivity=1 coordinates=1 epsilon=0,5e-5
laplace scale=1 sensitivity=1 coordinates=2 epsilon=-1.5,0,0.3,1.9
laplace scale=0.1 sensitivity=1 coordinates=2 epsilon=-3,9,19.5
laplace scale=2 sensitivity=1 coordinates=3 epsilon=-0.2,0,0.6,1.49
laplace scale=20 sensitivity=1 coordinates=7 epsilon=-0.1,0,0.2,0.349
laplace scale=20 sensitivity=1 coordinates=20 epsilon=-0.3,0,0.3,0.95
laplace scale=0.5 sensitivity=1 coordinates=20 epsilon=5,39

randomized_response local_epsilon=1 bits=1 epsilon=-2,0,0.5,0.999999
randomized_response local_epsilon=0.5 bits=5 epsilon=-1,0,1,2.4
randomized_response local_epsilon=0.1 bits=64 epsilon=-0.5,0,1,4,6.3
randomized_response local_epsilon=8 bits=64 epsilon=100,508

screening sigma=85 threshold=210 lowest=0 highest=300 epsilon=-0.5,-0.01,0,0.01,0.03
screening sigma=5 threshold=400 lowest=0 highest=260 epsilon=1,5.5
screening sigma=3 threshold=210 lowest=0 highest=100 epsilon=1,11
screening sigma=0.2 threshold=10 lowest=0 highest=18 epsilon=0,30,180,300

poisson_screening sigma=85 threshold=210 lowest=0 highest=300 rate=0.25 epsilon=-0.1,0,0.002,0.008
poisson_screening sigma=3 threshold=210 lowest=0 highest=100 rate=1e-6 epsilon=1e-3,0.04
poisson_screening sigma=0.2 threshold=10 lowest=0 highest=18 rate=1e-3 epsilon=-1,0,5,140

poisson_gaussian sigma=1 rate=0.01 epsilon=-1,-0.005,0,0.005,1,30
poisson_gaussian sigma=0.6 rate=0.256 epsilon=-0.2,0,0.2,10,55
poisson_gaussian sigma=1000 rate=1e-6 epsilon=0,1e-9,3.5e-8
poisson_gaussian sigma=60 rate=0.999 sensitivity=1.4142135623730951 epsilon=-0.5,0.1,0.8
poisson_gaussian sigma=0.05 rate=1e-10 epsilon=-1e-10,0,500,900

poisson_laplace scale=1 rate=0.25 epsilon=-0.5,-0.1,0,0.1,0.3
poisson_laplace scale=0.05 rate=1e-6 epsilon=-1e-7,0,6
poisson_laplace scale=20 rate=0.999 epsilon=-0.04,0,0.0499
poisson_laplace scale=200 rate=1e-3 epsilon=0,4e-6

collision local_epsilon=1 nonzeros=2 buckets=8 epsilon=-0.5,0,0.5

exponential_mechanism local_epsilon=1e-6 epsilon=-5e-7,0,9e-7
exponential_mechanism local_epsilon=2 epsilon=-1,0,0.7,1.999
exponential_mechanism local_epsilon=50 epsilon=0,20,49
kary_response local_epsilon=2 categories=10 epsilon=-1,0,1.5
approximate_dp local_epsilon=0.5 told=1e-6 epsilon=-0.2,0,0.4,3
approximate_dp local_epsilon=5 told=1e-30 epsilon=-1,4.9,8
poisson_approximate_dp local_epsilon=0.5 told=0.001 rate=0.01 epsilon=-0.1,0,0.003,0.1
poisson_gaussian_group sigma=1 rate=0.01 size=3 epsilon=-0.01,0,0.02,5,30
poisson_gaussian_group sigma=4 rate=0.2 size=10 epsilon=-0.5,0,0.1,3
"""

CONVERSION = """
conversion order=1.001 renyi=1e-6,0.1 delta=1e-300,1e-5,0.1
conversion order=1.1 renyi=0.01,3 delta=1e-10,0.01
conversion order=1.5 renyi=1e-12,1,100 delta=1e-8,0.1
conversion order=2 renyi=1e-4,1 delta=1e-300,1e-5
conversion order=5.5 renyi=0.001,0.5,40 delta=1e-100,1e-6
conversion order=30 renyi=0.01,2 delta=1e-300,1e-5,0.02
conversion order=300.5 renyi=0.05,10 delta=1e-12,0.1
conversion order=1e4 renyi=1e-5,0.2,1000 delta=1e-300,1e-6,0.1
"""

GAUSSIAN_DP = """
gaussian_dp mu=0.001,0.1,1,6 delta=1e-12,1e-5
gaussian_dp mu=50 delta=1e-300,0.1
"""
