! SPDX-License-Identifier: BSD-3-Clause
!
! The Fortran twin of simulation.c: the same files, the same options. Dimensions are given in C's
! order, so that both programs are called alike; here they are dims(3), dims(2), dims(1).
program simulation
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: int64, error_unit, output_unit
    use hdf5
    use mpi
    implicit none

    integer, parameter :: nfields = 3
    character(len=11), parameter :: field_name(nfields) = ["density    ", "pressure   ", "temperature"]
    character(len=7), parameter :: field_units(nfields) = ["g/cm3  ", "dyn/cm2", "K      "]
    character(len=1), parameter :: mesh_name(3) = ["x", "y", "z"]
    real(c_double), parameter :: mesh_spacing(3) = [0.5d0, 0.25d0, 0.125d0]

    type, bind(c) :: particle
        integer(c_int64_t) :: id
        real(c_double) :: pos(3)
        real(c_float) :: mass
    end type particle

    character(len=4096) :: dir = "", prefix = "step"
    integer :: steps = 4, sleep_ms = 0
    logical :: independent = .false.
    integer(hsize_t) :: dims(3) = 32, average_particles = 1000

    integer :: rank, nranks, ierr, step, f
    integer(hid_t) :: access, transfer
    integer(hsize_t) :: start(3) = 0, count(3), nparticles, first_particle, total_particles
    real(c_double), allocatable, target :: field(:, :, :, :)
    type(particle), allocatable, target :: particles(:)
    real(c_double) :: begin, finish, io_seconds, bytes, slowest, all_bytes

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
    call parse()
    call h5open_f(ierr)
    call check("h5open_f")

    ! Blocks on C's axis 0, which is the last axis here; the first ranks get one more.
    count = dims
    count(3) = dims(3)/nranks + merge(1, 0, rank < mod(dims(3), int(nranks, hsize_t)))
    start(3) = rank*(dims(3)/nranks) + min(int(rank, hsize_t), mod(dims(3), int(nranks, hsize_t)))
    allocate (field(count(1), count(2), count(3), nfields))
    allocate (particles(average_particles + 10*rank + steps))

    call h5pcreate_f(H5P_FILE_ACCESS_F, access, ierr)
    call h5pset_fapl_mpio_f(access, MPI_COMM_WORLD, MPI_INFO_NULL, ierr)
    call check("h5pset_fapl_mpio_f")
    call h5pcreate_f(H5P_DATASET_XFER_F, transfer, ierr)
    call h5pset_dxpl_mpio_f(transfer, merge(H5FD_MPIO_INDEPENDENT_F, H5FD_MPIO_COLLECTIVE_F, independent), ierr)
    call check("h5pset_dxpl_mpio_f")

    io_seconds = 0
    bytes = 0
    do step = 0, steps - 1
        call compute()
        call MPI_Barrier(MPI_COMM_WORLD, ierr)
        begin = MPI_Wtime()
        call write_step()
        finish = MPI_Wtime()
        if (rank == 0) then
            write (output_unit, '(a,i0,3a)') "simulation_f: wrote step ", step, " in ", text(finish - begin), " s"
            flush (output_unit)
        end if
        io_seconds = io_seconds + finish - begin
        bytes = bytes + 8d0*size(field) + real(nparticles, c_double)*c_sizeof(particles(1))
    end do

    call MPI_Reduce(io_seconds, slowest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, ierr)
    call MPI_Reduce(bytes, all_bytes, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
    if (rank == 0) write (output_unit, '(3a,i0)') "simulation_f: io_seconds=", text(slowest), &
        " bytes=", int(all_bytes, int64)

    call h5pclose_f(transfer, ierr)
    call h5pclose_f(access, ierr)
    call h5close_f(ierr)
    call MPI_Finalize(ierr)

contains

    subroutine parse()
        character(len=4096) :: arg
        integer :: i, d
        i = 1
        do while (i <= command_argument_count())
            call get_command_argument(i, arg)
            i = i + 1
            select case (arg)
            case ("--dir"); call get_command_argument(i, dir)
            case ("--prefix"); call get_command_argument(i, prefix)
            case ("--steps"); steps = int(number(i))
            case ("--sleep-ms"); sleep_ms = int(number(i))
            case ("--particles"); average_particles = number(i)
            case ("--dims")
                do d = 0, 2
                    dims(3 - d) = number(i + d)
                end do
                i = i + 2
            case ("--independent")
                independent = .true.
                i = i - 1
            case default; call usage()
            end select
            i = i + 1
        end do
        if (dir == "" .or. steps < 1 .or. any(dims < 1)) call usage()
    end subroutine parse

    function number(i) result(n)
        integer, intent(in) :: i
        integer(int64) :: n
        integer :: stat
        character(len=32) :: arg
        call get_command_argument(i, arg)
        read (arg, *, iostat=stat) n
        if (stat /= 0) call usage()
    end function number

    function text(seconds)
        real(c_double), intent(in) :: seconds
        character(len=:), allocatable :: text
        character(len=16) :: buffer
        write (buffer, '(f16.6)') seconds
        text = trim(adjustl(buffer))
    end function text

    subroutine usage()
        if (rank == 0) write (error_unit, '(a)') "usage: simulation_f --dir DIR [--steps N] [--dims NX NY NZ]"// &
            " [--particles N] [--prefix P] [--sleep-ms MS] [--independent]"
        call MPI_Finalize(ierr)
        stop 2
    end subroutine usage

    ! A failed HDF5 call ends the program; HDF5 has printed its error stack.
    subroutine check(what)
        character(len=*), intent(in) :: what
        integer :: ignored
        if (ierr < 0) then
            write (error_unit, '(2a)') "simulation_f: failed: ", what
            call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
        end if
    end subroutine check

    subroutine compute()
        interface
            integer(c_int) function usleep(microseconds) bind(c)
                import :: c_int
                integer(c_int), value :: microseconds
            end function usleep
        end interface
        integer(int64) :: i, j, k, cell
        integer(int64) :: mine, before, all_of_them

        ierr = usleep(1000*sleep_ms)
        do f = 1, nfields
            do k = 1, count(3)
                do j = 1, count(2)
                    do i = 1, count(1)
                        cell = ((start(3) + k - 1)*dims(2) + j - 1)*dims(1) + i - 1
                        field(i, j, k, f) = 1000d0*f + step + cell/1048576d0
                    end do
                end do
            end do
        end do

        ! Particles move between the ranks, so their numbers change; they are numbered through all ranks.
        mine = average_particles + 10*rank + step
        before = 0
        call MPI_Exscan(mine, before, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, ierr)
        call MPI_Allreduce(mine, all_of_them, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, ierr)
        nparticles = mine
        first_particle = before
        total_particles = all_of_them
        do i = 1, mine
            cell = before + i - 1
            particles(i)%id = 1000000000_int64*step + cell
            particles(i)%pos = step + [1d0, 2d0, 3d0]*cell/1024d0
            particles(i)%mass = real(1d0 + mod(cell, 1024_int64)/1024d0, c_float)
        end do
    end subroutine compute

    subroutine write_step()
        character(len=4200) :: path
        integer(hid_t) :: file
        integer, target :: step_now
        real(c_double), target :: time

        write (path, '(4a,i4.4,a)') trim(dir), "/", trim(prefix), "_", step, ".h5"
        step_now = step
        time = 0.25d0*step
        call h5fcreate_f(trim(path), H5F_ACC_TRUNC_F, file, ierr, access_prp=access)
        call check("h5fcreate_f "//trim(path))
        call write_attribute(file, "step", H5T_NATIVE_INTEGER, 1, c_loc(step_now))
        call write_attribute(file, "time", H5T_NATIVE_DOUBLE, 1, c_loc(time))
        call write_fields(file)
        call write_particles(file)
        call write_mesh(file)
        call h5fclose_f(file, ierr)
        call check("h5fclose_f "//trim(path))
    end subroutine write_step

    subroutine write_attribute(object, name, type, n, value)
        integer(hid_t), intent(in) :: object, type
        character(len=*), intent(in) :: name
        integer, intent(in) :: n
        type(c_ptr), intent(in) :: value
        integer(hid_t) :: space, attr
        if (n == 1) then
            call h5screate_f(H5S_SCALAR_F, space, ierr)
        else
            call h5screate_simple_f(1, [int(n, hsize_t)], space, ierr)
        end if
        call check("h5screate_f")
        call h5acreate_f(object, name, type, space, attr, ierr)
        call check("h5acreate_f "//name)
        call h5awrite_f(attr, type, value, ierr)
        call check("h5awrite_f "//name)
        call h5aclose_f(attr, ierr)
        call h5sclose_f(space, ierr)
    end subroutine write_attribute

    subroutine write_string(object, name, value)
        integer(hid_t), intent(in) :: object
        character(len=*), intent(in) :: name, value
        character(len=len(value)), target :: copy
        integer(hid_t) :: type
        copy = value
        call h5tcopy_f(H5T_FORTRAN_S1, type, ierr)
        call h5tset_size_f(type, int(len(value), size_t), ierr)
        call check("h5tset_size_f")
        call write_attribute(object, name, type, 1, c_loc(copy))
        call h5tclose_f(type, ierr)
    end subroutine write_string

    subroutine write_fields(file)
        integer(hid_t), intent(in) :: file
        integer(hid_t) :: group, filespace, memspace, create, dset
        integer(int64), target :: c_dims(3)

        call h5gcreate_f(file, "fields", group, ierr)
        call check("h5gcreate_f fields")
        c_dims = dims(3:1:-1)
        call write_attribute(group, "dims", h5kind_to_type(int64, H5_INTEGER_KIND), 3, c_loc(c_dims))

        call h5screate_simple_f(3, dims, filespace, ierr)
        call h5screate_simple_f(3, count, memspace, ierr)
        if (count(3) > 0) then
            call h5sselect_hyperslab_f(filespace, H5S_SELECT_SET_F, start, count, ierr)
        else
            call h5sselect_none_f(filespace, ierr)
            call h5sselect_none_f(memspace, ierr)
        end if
        call check("h5sselect_hyperslab_f")
        do f = 1, nfields
            call h5pcreate_f(H5P_DATASET_CREATE_F, create, ierr)
            ! pressure is chunked; the chunks don't end where the blocks of the ranks do
            if (f == 2) call h5pset_chunk_f(create, 3, (dims + 2)/3, ierr)
            call check("h5pset_chunk_f")
            call h5dcreate_f(group, trim(field_name(f)), H5T_NATIVE_DOUBLE, filespace, dset, ierr, dcpl_id=create)
            call check("h5dcreate_f "//field_name(f))
            call h5dwrite_f(dset, H5T_NATIVE_DOUBLE, c_loc(field(:, :, :, f)), ierr, &
                            memspace, filespace, xfer_prp=transfer)
            call check("h5dwrite_f "//field_name(f))
            call write_string(dset, "units", trim(field_units(f)))
            call h5dclose_f(dset, ierr)
            call h5pclose_f(create, ierr)
        end do
        call h5sclose_f(memspace, ierr)
        call h5sclose_f(filespace, ierr)
        call h5gclose_f(group, ierr)
    end subroutine write_fields

    subroutine particle_type(type)
        integer(hid_t), intent(out) :: type
        integer(hid_t) :: vector
        type(particle), target :: p
        call h5tarray_create_f(H5T_NATIVE_DOUBLE, 1, [3_hsize_t], vector, ierr)
        call h5tcreate_f(H5T_COMPOUND_F, c_sizeof(p), type, ierr)
        call h5tinsert_f(type, "id", h5offsetof(c_loc(p), c_loc(p%id)), h5kind_to_type(c_int64_t, H5_INTEGER_KIND), ierr)
        call h5tinsert_f(type, "pos", h5offsetof(c_loc(p), c_loc(p%pos)), vector, ierr)
        call h5tinsert_f(type, "mass", h5offsetof(c_loc(p), c_loc(p%mass)), H5T_NATIVE_REAL, ierr)
        call check("h5tinsert_f")
        call h5tclose_f(vector, ierr)
    end subroutine particle_type

    subroutine write_particles(file)
        integer(hid_t), intent(in) :: file
        integer(hid_t) :: group, type, filespace, memspace, dset
        integer(int64), target :: total

        call h5gcreate_f(file, "particles", group, ierr)
        call check("h5gcreate_f particles")
        total = total_particles
        call write_attribute(group, "count", h5kind_to_type(int64, H5_INTEGER_KIND), 1, c_loc(total))

        call particle_type(type)
        call h5screate_simple_f(1, [total_particles], filespace, ierr)
        call h5screate_simple_f(1, [nparticles], memspace, ierr)
        call h5sselect_hyperslab_f(filespace, H5S_SELECT_SET_F, [first_particle], [nparticles], ierr)
        call check("h5sselect_hyperslab_f particles")
        call h5dcreate_f(group, "table", type, filespace, dset, ierr)
        call check("h5dcreate_f table")
        call h5dwrite_f(dset, type, c_loc(particles), ierr, memspace, filespace, xfer_prp=transfer)
        call check("h5dwrite_f table")
        call write_string(dset, "units", "cm, g")
        call h5dclose_f(dset, ierr)
        call h5sclose_f(memspace, ierr)
        call h5sclose_f(filespace, ierr)
        call h5tclose_f(type, ierr)
        call h5gclose_f(group, ierr)
    end subroutine write_particles

    ! The coordinates are small: rank 0 writes them, the others take part with an empty selection.
    subroutine write_mesh(file)
        integer(hid_t), intent(in) :: file
        integer(hid_t) :: group, space, dset
        real(c_double), allocatable, target :: coord(:)
        real(c_double), target :: spacing(3)
        integer(hsize_t) :: i
        integer :: d

        call h5gcreate_f(file, "mesh", group, ierr)
        call check("h5gcreate_f mesh")
        spacing = mesh_spacing
        call write_attribute(group, "spacing", H5T_NATIVE_DOUBLE, 3, c_loc(spacing))
        call write_string(group, "units", "cm")
        do d = 1, 3
            coord = [((i - 1)*mesh_spacing(d), i=1, dims(4 - d))]
            call h5screate_simple_f(1, [dims(4 - d)], space, ierr)
            call h5dcreate_f(group, mesh_name(d), H5T_NATIVE_DOUBLE, space, dset, ierr)
            call check("h5dcreate_f "//mesh_name(d))
            if (rank /= 0) call h5sselect_none_f(space, ierr)
            call h5dwrite_f(dset, H5T_NATIVE_DOUBLE, c_loc(coord), ierr, space, space, xfer_prp=transfer)
            call check("h5dwrite_f "//mesh_name(d))
            call h5dclose_f(dset, ierr)
            call h5sclose_f(space, ierr)
        end do
        call h5gclose_f(group, ierr)
    end subroutine write_mesh

end program simulation
